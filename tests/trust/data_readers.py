"""Readers of graphs: datasets, tables, and whole graphs in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpnn
from tests.data.conftest import write_kind, write_planetoid
from tests.trust.reader import Reader


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

    with mock.patch("gpnn.data.planetoid.NUM_VAL", 1):
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


def _write_text_tables(folder: Path) -> None:
    (folder / "nodes.tsv").write_text("id\tsplit\n" + "".join(f"{n}\ttrain\n" for n in range(1, 6)))
    (folder / "edges.metis").write_text("5 4\n2\n1 3\n2 4\n3 5\n4\n")
    (folder / "features.csv").write_text("id,size,age\n" + "".join(f"{n},{n / 2},{7 - n}\n" for n in range(1, 6)))
    (folder / "labels.tsv").write_text("id\ttall\told\n" + "".join(f"{n}\t{n % 2}\t1\n" for n in range(1, 6)))


def _write_odd_tables(folder: Path) -> None:
    """Compressed, in UTF-16 and Latin-1, with semicolons and decimal commas, edge types by their files."""
    import gzip

    rows = [f"ø{n};{'ab'[n % 2]};{n},25" for n in range(12)]
    (folder / "nodes.csv").write_text("ID;Label;størrelse\n" + "\n".join(rows) + "\n", encoding="utf-16")
    edges = "Source|Target\n" + "".join(f"ø{n}|ø{(n * 5 + 1) % 12}\n" for n in range(12))
    (folder / "edges_likes.csv.gz").write_bytes(gzip.compress(edges.encode()))
    (folder / "edges_knows.csv").write_text(edges, encoding="latin-1")


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
    parquet.write_table(pyarrow.table(edges), folder / "edges.parquet", compression="zstd")


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


def _write_saved_hetero(folder: Path) -> None:
    from torch_geometric.data import HeteroData

    data = HeteroData({"user": {"x": torch.eye(4), "y": torch.tensor([0, 1, 0, -1])}, "item": {"x": torch.ones(2, 3)}})
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 1, 0]])
    data["item", "like", "item"].edge_index = torch.tensor([[0], [1]])
    torch.save(data, folder / "graph.pt")


def _write_databases(folder: Path) -> None:
    import sqlite3

    import duckdb

    tables = (
        "CREATE TABLE nodes (id BIGINT, label TEXT, size REAL); CREATE TABLE edges (source BIGINT, target BIGINT);"
        + "".join(f"INSERT INTO nodes VALUES ({n}, '{'ab'[n % 2]}', {n / 2});" for n in range(12))
        + "".join(f"INSERT INTO edges VALUES ({n}, {n * 5 % 12});" for n in range(12))
    )
    with sqlite3.connect(folder / "graph.sqlite") as connection:
        connection.executescript(tables)
    connection.close()
    with duckdb.connect(str(folder / "graph.duckdb")) as other:
        other.execute(tables)


def _read_each(folder: Path) -> list[Any]:
    return [gpnn.load_dataset(path) for path in sorted(folder.iterdir())]


def _sound_each(graphs: list[Any]) -> None:
    for data in graphs:
        sound_data(data)


DATA_READERS: dict[str, Reader] = {
    "pickle": Reader(_write_pickles, _read_pickles, _sound_pickles),
    "planetoid": Reader(
        lambda folder: write_planetoid(folder / "planetoid" / "ind.cora."),
        lambda folder: gpnn.load_dataset("cora", root=folder),
        sound_data,
    ),
    "nell": Reader(_write_nell, _read_nell, sound_data),
    "babi": Reader(_write_babi, lambda root: gpnn.load_dataset("babi", root=root, num_train=1, num_val=1), sound_data),
    "diel": Reader(_write_diel, lambda folder: gpnn.load_dataset("diel", root=folder, split=3), sound_data),
    "kinds": Reader(write_kind, lambda folder: gpnn.load_dataset("texas", root=folder), sound_data),
    "tables": Reader(_write_tables, gpnn.load_dataset, sound_data),
    "text tables": Reader(_write_text_tables, gpnn.load_dataset, sound_data),
    "odd tables": Reader(_write_odd_tables, gpnn.load_dataset, sound_data),
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
    "databases": Reader(_write_databases, _read_each, _sound_each),
    "saved graph": Reader(_write_saved_graph, _read_each, _sound_each),
    "saved hetero": Reader(_write_saved_hetero, _read_each, _sound_each),
}
