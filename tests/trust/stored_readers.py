"""Readers of what gpnn stores beside runs: partitions, shards, experiments, their results, classifiers."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpnn
from tests.trust.data_readers import sound_data
from tests.trust.reader import Reader


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


def _write_shards(folder: Path) -> None:
    from gpnn.data.features import csr_tensor
    from gpnn.distributed import NodeOrder, write_shards
    from tests.oracle.engine_cases import multigraph

    graph, ptr = multigraph(), np.arange(11)
    columns = {"x": csr_tensor(ptr, ptr[:10] % 3, np.ones(10, np.float32), (10, 3)), "y": torch.arange(10) % 3}
    part = gpnn.Partition([0, 3, 1, 0, 3, 1, 0, 1, 3, 3], 4)
    write_shards(folder / "shards", graph, NodeOrder.of(graph, part, 2), columns, {"num_classes": 3})


def _read_shards(folder: Path) -> list[dict[str, Any]]:
    from gpnn.distributed import read_index, read_shard

    index = read_index(folder / "shards")
    return [_plain(*read_shard(index, rank, size)) for size in (1, 2) for rank in range(size)]


def _plain(shard: Any, columns: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What was read, to be compared."""
    tensors = {"nodes": shard.nodes, "halo": shard.halo, "edges": shard.edges, "part_ptr": shard.part_ptr, **columns}
    tensors |= {name: getattr(shard.graph, name) for name in ("src", "dst", "edge_type", "edge_weight")}
    lists = {name: tensor.to_dense().tolist() for name, tensor in tensors.items()}
    return {"num_own": shard.num_own, "num_nodes": shard.graph.num_nodes, "totals": shard.totals, **lists}


def _read_forged_shards(folder: Path) -> list[dict[str, Any]]:
    """What is read of shards with right digests over what they hold."""
    from gpnn.storage.read import read_json, seal
    from gpnn.storage.tensors import digest_blocks

    with tempfile.TemporaryDirectory() as root:
        copied = Path(root) / "copy"
        shutil.copytree(folder, copied)
        index = read_json(copied / "shards" / "shards.json")
        index.pop("sha256", None)
        index["digests"] = {path.name: digest_blocks(path) for path in sorted(copied.glob("shards/*.safetensors"))}
        (copied / "shards" / "shards.json").write_text(json.dumps(seal(index)))
        return _read_shards(copied)


def _sound_shards(shards: list[dict[str, Any]]) -> None:
    for shard in shards:
        assert shard["num_own"] == len(shard["nodes"]) == len(shard["y"]) == len(shard["x"])
        assert shard["num_nodes"] == shard["num_own"] + len(shard["halo"])
        assert len(shard["edges"]) == len(shard["src"])


def _write_experiment(folder: Path) -> None:
    rows = '[[rows]]\nname = "a"\n[[rows]]\nname = "b"\nsettings = { train = { epochs = 2 } }\n'
    columns = '[[columns]]\nname = "One"\nsettings = { data = { name = "digits" } }\n'
    grid = '[grid]\n"train.epochs" = [1, 2]\n'
    head = 'title = "Two"\nseeds = 2\nsamples = 2\npairs = [["a", "b"]]\nnotes = ["one"]\n'
    (folder / "some.toml").write_text(f"{head}{rows}{columns}{grid}")


def _read_experiment(folder: Path) -> Any:
    import itertools

    from experiments.harness import read_experiment

    experiment = read_experiment(folder / "some.toml")
    return list(itertools.islice(experiment.cells(), 100))


def _sound_experiment(cells: Any) -> None:
    assert len({cell.key for cell in cells}) >= 1 or not cells


def _write_results(folder: Path) -> None:
    from experiments.harness import Cell, Results

    results = Results.open(folder / "cells.jsonl")
    for seed in range(3):
        results.add(Cell("a", "One", seed, {"train": {"epochs": 1}}), {"test_accuracy": 0.5, "seconds": 1.25})


def _read_results(folder: Path) -> Any:
    from experiments.harness import Results

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


def _sound_probabilities(probability: Any) -> None:
    assert probability.ndim == 2
    assert len(probability) == 60


def _write_converted(folder: Path) -> None:
    """Two graphs on the disk: text ids, categories, types and weights; and rows of a matrix in 8 bits, symmetric."""
    from gpnn.data.convert import ConvertSettings, convert

    with tempfile.TemporaryDirectory() as root:
        nodes, edges, other = (Path(root) / name for name in ("nodes.csv", "edges.csv", "numbers.csv"))
        rows = [f"p{n},{'ab'[n % 2]},{'rgb'[n % 3]},{n}.5" for n in range(20)]
        nodes.write_text("\n".join(["id,label,colour,size", *rows]) + "\n")
        rows = [f"p{n},p{n * 7 % 20},{'xy'[n % 2]},{n % 3 + 1}" for n in range(20)]
        edges.write_text("\n".join(["source,target,type,weight", *rows]) + "\n")
        convert(edges, nodes, folder / "text")
        other.write_text("source,target\n" + "".join(f"{n},{n + 1}\n" for n in range(9)))
        np.save(Path(root) / "x.npy", np.arange(30, dtype=np.float32).reshape(10, 3) % 7)
        settings = ConvertSettings(undirected=True, dtype="int8")
        convert(other, None, folder / "numbers", features=Path(root) / "x.npy", settings=settings)


def _read_converted(folder: Path) -> list[Any]:
    """What is read of graphs whose arrays were described and `graph.json` was signed anew, as a forger would."""
    from contextlib import suppress

    from gpnn.data.stored import describe_array
    from gpnn.storage.read import read_json, seal

    with tempfile.TemporaryDirectory() as root:
        copied = Path(root) / "copy"
        shutil.copytree(folder, copied)
        for path in sorted(copied.glob("*/graph.json")):
            facts = read_json(path)
            facts.pop("sha256", None)
            arrays = facts["arrays"] if isinstance(facts.get("arrays"), dict) else {}
            for array in path.parent.glob("*.npy"):
                with suppress(ValueError):  # a damaged header
                    arrays |= {array.stem: describe_array(array)} if array.stem in arrays else {}
            path.write_text(json.dumps(seal(facts)))
        graphs = [gpnn.load_dataset(path) for path in sorted(copied.iterdir())]
        for data in graphs:
            _sound_converted(data)  # while its files are there
        return graphs


def _sound_converted(data: Any) -> None:
    """A sound graph; values of features, which are mapped and not read, may be any."""
    if data.get("x") is not None:
        data = data.clone()
        data.x = torch.nan_to_num(data.x.to_dense())
    sound_data(data)
    names = data.get("node_name")
    assert names is None or len([str(name) for name in names]) == data.num_nodes


STORED_READERS: dict[str, Reader] = {
    "partition": Reader(_write_partitions, _read_partitions, _sound_partitions),
    "shards": Reader(_write_shards, _read_shards, _sound_shards, sealed=True),
    "forged shards": Reader(_write_shards, _read_forged_shards, _sound_shards),
    "converted": Reader(_write_converted, _read_converted, lambda graphs: None),
    "experiment": Reader(_write_experiment, _read_experiment, _sound_experiment),
    "results": Reader(_write_results, _read_results, _sound_results),
    "classifier": Reader(_write_classifier, _read_classifier, _sound_probabilities),
}
