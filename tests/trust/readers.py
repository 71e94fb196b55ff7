"""Every reader of files that others wrote: valid files to damage, how they are read, and what a sound answer is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpnn
from tests.data.conftest import write_planetoid

TINY = ["data.name=planted", "data.num_nodes=60", "data.num_classes=3", "data.num_features=8", "data.label_rate=0.4"]
SMALL = ["model.hidden_channels=4", "train.epochs=2", "partition.k=3", "train.checkpoint_every=1", "schedule.rounds=2"]


@dataclass(frozen=True)
class Reader:
    """A reader under test.

    Attributes:
        write: fills an empty folder with a valid case.
        read: reads that folder; raises ValueError with one clear sentence, or gives the answer.
        sound: raises AssertionError where the answer cannot be right.
        damaged: glob of the files to be damaged.
    """

    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    sound: Callable[[Any], None]
    damaged: str = "**/*"

    def files(self, folder: Path) -> list[Path]:
        """The files that may be damaged, in a fixed order."""
        return sorted(path for path in folder.glob(self.damaged) if path.is_file())


def sound_data(data: Any) -> None:
    """A graph whose edges, features, labels and masks fit its nodes."""
    graph = gpnn.graph.as_graph(data)
    assert data.num_nodes >= 1
    if graph.src.numel():
        assert min(int(graph.src.min()), int(graph.dst.min())) >= 0
        assert max(int(graph.src.max()), int(graph.dst.max())) < data.num_nodes
    if data.get("x") is not None:
        values = data.x if data.x.layout == torch.strided else data.x.values()
        assert data.x.shape[0] == data.num_nodes
        assert bool(values.isfinite().all())
    if data.get("y") is not None:
        assert len(data.y) == data.num_nodes
        assert int(data.y.max()) < max(data.num_classes, 2)
    for name in ("train_mask", "val_mask", "test_mask"):
        if data.get(name) is not None:
            assert data[name].shape == (data.num_nodes,)


def _write_pickles(folder: Path) -> None:
    import pickle

    from scipy.sparse import csr_matrix

    matrix = csr_matrix(np.array([[0, 1.5], [2, 0]], np.float32))
    for protocol in (2, 3, 4, 5):
        for name, value in {
            "array": np.arange(6.0).reshape(2, 3),
            "matrix": matrix,
            "graph": {0: [1, 2], 9: []},
        }.items():
            (folder / f"{name}.{protocol}").write_bytes(pickle.dumps(value, protocol=protocol))


def _read_pickles(folder: Path) -> list[Any]:
    from gpnn.data.unpickle import read_pickle

    return [read_pickle(path) for path in sorted(folder.iterdir())]


def _sound_pickles(values: list[Any]) -> None:
    from scipy.sparse import issparse

    for value in values:
        if issparse(value):
            value.check_format(full_check=True)
        assert type(value).__module__.partition(".")[0] in ("numpy", "scipy", "builtins")


def _write_nell(folder: Path) -> None:
    write_planetoid(folder / "nell" / "ind.nell.0.1.", with_ally=False)
    np.savez(
        folder / "nell" / "recovered_labels.npz",
        labels_0_1=np.array([1, 0, -1, -1, 1, 0], np.int16),
        source_0_1=np.array([1, 4, 0, 0, 2 | 4, 2], np.int8),
    )


def _read_nell(folder: Path) -> Any:
    from unittest import mock

    with mock.patch("gpnn.data.nell.NUM_VAL", 1):
        return gpnn.load_dataset("nell", root=folder, rate=0.1)


def _write_babi(folder: Path) -> None:
    words = {"edge_types": 2, "node_ids": 4, "question_types": 2, "labels": 0}
    stories = {"train": "1 1 2\n2 2 3\n? 2 2 1\n? 1 3 2\n\n4 1 2\n? 1 4 2\n\n", "test": "3 2 1\n? 2 1 3\n"}
    for part, text in stories.items():
        inside = folder / "babi" / "fold_1" / part
        inside.mkdir(parents=True)
        (inside / "4_graphs.txt").write_text(text)
        for name, count in words.items():
            (inside / f"4_{name}.txt").write_text("".join(f"w{n}={n}\n" for n in range(1, count + 1)))


def _write_diel(folder: Path) -> None:
    inside = folder / "diel" / "3"
    inside.mkdir(parents=True)
    facts = ["l1 a", "l1 c", "l2 a", "l2 b", "l3 b", "l3 d", "l8 a", "l9 b", "l4 c", "l4 d", "l5 d", "l6 e", "l7 f"]
    (inside.parent / "hasItem.cfacts").write_text("".join(f"hasItem {fact}\n" for fact in facts))
    (inside.parent / "list_features.txt").write_text("l1 0 2\nl2 2\nl3 5 5\nl4\t1\n\nl7\nunknown 9\n")
    (inside.parent / "sim.dict").write_text("c c\nc d\ng e\nf x\nq a\n")
    (inside / "coverage_eva_multiAdded").write_text("c 1\nd 2\ng 4\nf 3\nh 1\n")
    seeds = {"disease": "seed 1 a\n", "drug": "seed 2 b\nseed 2 nowhere\n", "ingredient": "", "symptom": ""}
    for category, text in seeds.items():
        (inside / f"{category}_devel_50p_proppr_seed_forTrainList").write_text(text)


def _write_tables(folder: Path) -> None:
    rows = [f"n{n},{'ab'[n % 2]},{('train', 'val', 'test')[n // 4]}" for n in range(12)]
    (folder / "nodes.csv").write_text("id,label,split\n" + "\n".join(rows) + "\n")
    edges = [f"n{n},n{(n * 5 + 1) % 12},{'xy'[n % 2]},{n / 2}" for n in range(12)]
    (folder / "edges.csv").write_text("source,target,type,weight\n" + "\n".join(edges) + "\n")
    np.savez(folder / "features.npz", np.arange(24.0).reshape(12, 2))


def _write_sparse_tables(folder: Path) -> None:
    from scipy.sparse import csr_matrix, save_npz

    (folder / "nodes.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(8)))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{n},{(n + 1) % 8}\n" for n in range(8)))
    save_npz(folder / "features.npz", csr_matrix(np.eye(8, 3, dtype=np.float32)), compressed=False)
    np.savez_compressed(folder / "labels.npz", np.eye(8, 2, dtype=np.int8))


def _write_parquet(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    nodes = {"id": list(range(12)), "label": ["a", "b"] * 6, "size": [n / 2 for n in range(12)]}
    edges = {"source": list(range(12)), "target": [(n * 5 + 1) % 12 for n in range(12)]}
    parquet.write_table(pyarrow.table(nodes), folder / "nodes.parquet")
    parquet.write_table(pyarrow.table(edges), folder / "edges.parquet")


def _write_arrays(folder: Path) -> None:
    np.savez(folder / "nodes.npz", id=np.arange(12), label=np.arange(12) % 2)
    np.savez_compressed(folder / "edges.npz", source=np.arange(12), target=np.arange(12) * 5 % 12)
    np.save(folder / "features.npy", np.eye(12, 3))


def _write_xml(folder: Path) -> None:
    import networkx

    graph = networkx.karate_club_graph()
    for node, number in zip(graph, range(34)):
        graph.nodes[node]["class"] = "ab"[number % 2]
    networkx.write_graphml_xml(graph, folder / "graph.graphml")
    networkx.write_gexf(graph, folder / "graph.gexf")


def _write_saved_graph(folder: Path) -> None:
    from torch_geometric.data import Data

    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    torch.save(Data(x=torch.eye(4), edge_index=edges, y=torch.tensor([0, 1, 0, -1])), folder / "graph.pt")


def _read_each(folder: Path) -> list[Any]:
    return [gpnn.load_dataset(path) for path in sorted(folder.iterdir())]


def _sound_each(graphs: list[Any]) -> None:
    for data in graphs:
        sound_data(data)


def _write_partitions(folder: Path) -> None:
    part = gpnn.Partition(torch.arange(40) % 5, 5)
    part.save(folder / "saved.safetensors")
    part.save(folder / "saved.part.5")


def _read_partitions(folder: Path) -> list[Any]:
    return [gpnn.Partition.load(path) for path in sorted(folder.iterdir())]


def _sound_partitions(parts: list[Any]) -> None:
    for part in parts:
        assert int(part.sizes.sum()) == part.num_nodes == len(part.order)
        assert len(part.ptr) == part.num_parts + 1


def _write_config(folder: Path) -> None:
    from gpnn.build import load_config

    overrides = [*TINY, *SMALL, "schedule.intra=2", "train.clip=1.5", "model.cell=gru", "device=cpu"]
    (folder / "config.toml").write_text(load_config(overrides=overrides).to_toml())


def _read_config(folder: Path) -> Any:
    from gpnn.build import load_config

    return load_config(folder / "config.toml")


def _sound_config(config: Any) -> None:
    """What was read writes itself as a file that reads the same."""
    import tempfile

    from gpnn.build import load_config

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(config.to_toml(), encoding="utf-8")
        assert load_config(Path(folder) / "config.toml") == config


def _write_run(folder: Path) -> None:
    from gpnn.build import build, create_run, load_config, train_run

    built = build(load_config(overrides=[*TINY, *SMALL, "model.cell=gru", "device=cpu"]))
    train_run(create_run(built, folder / "run"), built)


def _read_run(folder: Path) -> Any:
    """All that `gpnn predict` and the report read of a run."""
    from gpnn.build import build_data, load_config, predict_run
    from gpnn.train import RunFolder

    run = RunFolder.open(folder / "run")
    history, metrics = run.read_history(), run.read_metrics()
    config = load_config(overrides=[*TINY, *SMALL, "model.cell=gru", "device=cpu"])
    return history, metrics, predict_run(run, config, build_data(config))


def _sound_run(answer: Any) -> None:
    history, metrics, table = answer
    assert all(isinstance(record, dict) for record in history)
    assert isinstance(metrics, dict)
    assert table.num_rows == 60


def _read_checkpoint(folder: Path) -> Any:
    from gpnn.build import build, load_config
    from gpnn.train.checkpoint import load_checkpoint
    from gpnn.train.optimizer import make_optimizer

    built = build(load_config(overrides=[*TINY, *SMALL, "model.cell=gru", "device=cpu"]))
    progress = load_checkpoint(
        folder / "run" / "checkpoint" / "training.safetensors", built.model, make_optimizer(built.model)
    )
    return progress, built.model


def _sound_checkpoint(answer: Any) -> None:
    progress, model = answer
    assert isinstance(progress.epoch, int)
    assert progress.epoch >= 0
    assert set(progress.best_weights) in (set(), set(model.state_dict()))


def _write_shards(folder: Path) -> None:
    from gpnn.data.sparse import csr_tensor
    from gpnn.engine.sharded import Line, write_shards
    from tests.oracle.engine_cases import multigraph

    graph, ptr = multigraph(), np.arange(11)
    columns = {"x": csr_tensor(ptr, ptr[:10] % 3, np.ones(10, np.float32), (10, 3)), "y": torch.arange(10) % 3}
    part = gpnn.Partition([0, 3, 1, 0, 3, 1, 0, 1, 3, 3], 4)
    write_shards(folder / "shards", graph, Line.of(graph, part, 2), columns, {"num_classes": 3})


def _read_shards(folder: Path) -> list[Any]:
    from gpnn.engine.sharded import read_index, read_shard

    index = read_index(folder / "shards")
    return [read_shard(index, rank, size) for size in (1, 2) for rank in range(size)]


def _sound_shards(shards: list[Any]) -> None:
    for shard, columns in shards:
        assert shard.num_own == len(shard.nodes) == len(columns["y"]) == columns["x"].shape[0]
        assert shard.graph.num_nodes == shard.num_own + len(shard.halo)


def _write_experiment(folder: Path) -> None:
    rows = '[[rows]]\nname = "a"\n[[rows]]\nname = "b"\nsettings = { train = { epochs = 2 } }\n'
    columns = '[[columns]]\nname = "One"\nsettings = { data = { name = "digits" } }\n'
    grid = '[grid]\n"train.epochs" = [1, 2]\n'
    head = 'title = "Two"\nseeds = 2\nsamples = 2\npairs = [["a", "b"]]\nnotes = ["one"]\n'
    (folder / "some.toml").write_text(f"{head}{rows}{columns}{grid}")


def _read_experiment(folder: Path) -> Any:
    import itertools

    from gpnn.experiment import read_experiment

    experiment = read_experiment(folder / "some.toml")
    return list(itertools.islice(experiment.cells(), 100))


def _sound_experiment(cells: Any) -> None:
    assert len({cell.key for cell in cells}) >= 1 or not cells


def _write_results(folder: Path) -> None:
    from gpnn.experiment import Cell, Results

    results = Results.open(folder / "cells.jsonl")
    for seed in range(3):
        results.add(Cell("a", "One", seed, {"train": {"epochs": 1}}), {"test_accuracy": 0.5, "seconds": 1.25})


def _read_results(folder: Path) -> Any:
    from gpnn.experiment import Results

    return Results.open(folder / "cells.jsonl")


def _sound_results(results: Any) -> None:
    for key, outcome in results.outcomes.items():
        assert isinstance(key, str)
        assert isinstance(outcome.metrics, dict)


def _write_classifier(folder: Path) -> None:
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
    gpnn.GPNNClassifier(k=3, rounds=2, hidden_channels=4, epochs=2, device="cpu").fit(data).save(folder)


def _read_classifier(folder: Path) -> Any:
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
    return gpnn.GPNNClassifier.load(folder).predict_proba(data)


def _sound_probabilities(likely: Any) -> None:
    assert likely.ndim == 2
    assert len(likely) == 60


READERS: dict[str, Reader] = {
    "pickle": Reader(_write_pickles, _read_pickles, _sound_pickles),
    "planetoid": Reader(
        lambda folder: write_planetoid(folder / "planetoid" / "ind.cora."),
        lambda folder: gpnn.load_dataset("cora", root=folder),
        sound_data,
    ),
    "nell": Reader(_write_nell, _read_nell, sound_data),
    "babi": Reader(_write_babi, lambda root: gpnn.load_dataset("babi", root=root, num_train=1, num_val=1), sound_data),
    "diel": Reader(_write_diel, lambda folder: gpnn.load_dataset("diel", root=folder, split=3), sound_data),
    "tables": Reader(_write_tables, gpnn.load_dataset, sound_data),
    "sparse tables": Reader(_write_sparse_tables, gpnn.load_dataset, sound_data),
    "parquet": Reader(_write_parquet, gpnn.load_dataset, sound_data),
    "arrays": Reader(_write_arrays, gpnn.load_dataset, sound_data),
    "metis": Reader(
        lambda folder: (
            (folder / "a.graph").write_text("% a path\n5 4 1\n2 7\n1 7 3 1\n2 1 4 2\n3 2 5 9\n4 9\n") and None
        ),
        _read_each,
        _sound_each,
    ),
    "xml": Reader(_write_xml, _read_each, _sound_each),
    "saved graph": Reader(_write_saved_graph, _read_each, _sound_each),
    "partition": Reader(_write_partitions, _read_partitions, _sound_partitions),
    "config": Reader(_write_config, _read_config, _sound_config),
    "run folder": Reader(_write_run, _read_run, _sound_run, "run/*.[jm]*"),  # metrics, history, model, environment
    "checkpoint": Reader(_write_run, _read_checkpoint, _sound_checkpoint, "run/checkpoint/*"),
    "shards": Reader(_write_shards, _read_shards, _sound_shards),
    "experiment": Reader(_write_experiment, _read_experiment, _sound_experiment),
    "results": Reader(_write_results, _read_results, _sound_results),
    "classifier": Reader(_write_classifier, _read_classifier, _sound_probabilities),
}
