"""The same graph in every format is the same graph; features come by id or by row."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import csv, parquet
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix, save_npz

from gpnn.data import load_dataset

NODES = {"id": ["anna", "bert", "cleo"], "label": ["red", "blue", ""], "age": [1.5, 2.5, 3.5]}
EDGES = {"source": ["anna", "cleo"], "target": ["bert", "anna"], "type": ["x", "y"], "weight": [1.0, 0.5]}


def write(path: Path, columns: dict[str, Any]) -> None:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table(columns), path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    else:
        delimiter = "," if path.suffix == ".csv" else "\t"
        csv.write_csv(pyarrow.table(columns), path, csv.WriteOptions(delimiter=delimiter))


@pytest.mark.parametrize("nodes", [".csv", ".tsv", ".parquet", ".npz"])
@pytest.mark.parametrize("edges", [".csv", ".tsv", ".parquet", ".npz"])
def test_every_pair_of_formats(tmp_path: Path, nodes: str, edges: str) -> None:
    write(tmp_path / f"nodes{nodes}", NODES)
    write(tmp_path / f"edges{edges}", EDGES)
    data = load_dataset(tmp_path, numbers="raw")
    assert data.node_name.tolist() == ["anna", "bert", "cleo"]
    assert data.y.tolist() == [1, 0, -1]
    assert data.x.tolist() == [[1.5], [2.5], [3.5]]
    assert data.edge_index.tolist() == [[0, 2], [1, 0]]
    assert data.edge_type.tolist() == [0, 1]
    assert data.edge_weight.tolist() == [1, 0.5]


@pytest.mark.parametrize("nodes", [[5, 3, 9], ["5", "3", "9"], [5.0, 3.0, 9.0]])
@pytest.mark.parametrize("edges", [[9, 5], ["9", "5"], [9.0, 5.0]])
def test_one_and_its_text_are_one_id(tmp_path: Path, nodes: list, edges: list) -> None:
    write(tmp_path / "nodes.parquet", {"id": nodes})
    write(tmp_path / "edges.parquet", {"source": edges, "target": edges[::-1]})
    data = load_dataset(tmp_path)
    assert data.edge_index.tolist() == [[2, 0], [0, 2]]
    assert data.node_name.tolist() == [5, 3, 9]


@pytest.mark.parametrize(("value", "hint"), [("05", "'5'|5"), ("5.0", "5"), ("5e0", "5")])
def test_an_id_written_otherwise_is_explained(tmp_path: Path, value: str, hint: str) -> None:
    write(tmp_path / "nodes.csv", {"id": [5, 7]})
    (tmp_path / "edges.csv").write_text(f"source,target\n5,7\n{value},7\n")
    message = rf"edges\.csv, line 3, column source: must be an id of nodes\.csv \(nodes\.csv has ({hint}): ids must be"
    with pytest.raises(ValueError, match=message):
        load_dataset(tmp_path)


def test_ids_that_look_alike_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id\n1\n01\n1.0\n")
    (tmp_path / "edges.csv").write_text("source,target\n01,1.0\n1,01\n")
    assert load_dataset(tmp_path).edge_index.tolist() == [[1, 0], [2, 1]]


def test_ids_past_sixty_three_bits(tmp_path: Path) -> None:
    large = [str(2**63 + 1), str(2**63), "7"]
    (tmp_path / "nodes.csv").write_text("id\n" + "\n".join(large) + "\n")
    (tmp_path / "edges.csv").write_text(f"source,target\n{2**63},{2**63 + 1}\n")
    assert load_dataset(tmp_path).edge_index.tolist() == [[1], [0]]
    write(tmp_path / "edges.parquet", {"source": np.array([2**63], np.uint64), "target": np.array([7], np.uint64)})
    (tmp_path / "edges.csv").unlink()
    assert load_dataset(tmp_path).edge_index.tolist() == [[1], [2]]


def test_labels_with_gaps_stay_whole_numbers(tmp_path: Path) -> None:
    write(tmp_path / "nodes.parquet", {"id": [1, 2, 3], "label": pyarrow.array([4, None, 2])})
    write(tmp_path / "edges.npz", {"edge_index": [[1, 2], [2, 3]]})
    data = load_dataset(tmp_path)
    assert data.class_names == [2, 4]
    assert data.y.tolist() == [1, -1, 0]
    write(tmp_path / "nodes.parquet", {"id": [1, 2, 3], "label": [4.0, float("nan"), 2.0]})
    assert load_dataset(tmp_path).class_names == [2, 4]


FEATURES = np.array([[1, 0], [0, 2], [3, 0]], np.float32)


@pytest.mark.parametrize("name", ["npy", "dense npz", "csr", "csc", "coo", "parquet", "lists", "csv", "tsv"])
def test_features_by_row(tmp_path: Path, name: str) -> None:
    write(tmp_path / "nodes.csv", {"id": NODES["id"]})
    write(tmp_path / "edges.csv", EDGES)
    columns = {"a": FEATURES[:, 0], "b": FEATURES[:, 1]}
    if name == "npy":
        np.save(tmp_path / "features.npy", np.asfortranarray(FEATURES))
    elif name == "dense npz":
        np.savez_compressed(tmp_path / "features.npz", FEATURES.astype(np.int8))
    elif name in ("csr", "csc", "coo"):
        matrix = {"csr": csr_matrix, "csc": csc_matrix, "coo": coo_matrix}[name](FEATURES)
        save_npz(tmp_path / "features.npz", matrix)
    elif name == "lists":
        parquet.write_table(pyarrow.table({"x": FEATURES.tolist()}), tmp_path / "features.parquet")
    else:
        write(tmp_path / f"features.{name}", columns)
    data = load_dataset(tmp_path)
    assert data.x.to_dense().tolist() == FEATURES.tolist()
    assert (data.x.layout == torch.sparse_csr) == (name in ("csr", "csc", "coo"))
    names = {"parquet": ["a", "b"], "csv": ["a", "b"], "tsv": ["a", "b"], "lists": ["x_0", "x_1"]}
    assert data.get("feature_names") == names.get(name)


@pytest.mark.parametrize("ending", [".parquet", ".npz", ".csv"])
def test_features_by_id(tmp_path: Path, ending: str) -> None:
    write(tmp_path / "nodes.csv", {"id": NODES["id"]})
    write(tmp_path / "edges.csv", EDGES)
    rows = {"id": ["cleo", "zoe", "anna", "bert"], "a": [3.0, 9.0, 1.0, 2.0]}
    if ending == ".npz":
        np.savez(tmp_path / "features.npz", id=np.array(rows["id"]), x=np.array(rows["a"])[:, None])
    else:
        write(tmp_path / f"features{ending}", rows)
    data = load_dataset(tmp_path)
    assert data.x.tolist() == [[1], [2], [3]]
    assert data.notes == [f"1 rows of features{ending} belong to no node"]


def test_a_node_without_features_is_named(tmp_path: Path) -> None:
    write(tmp_path / "nodes.csv", {"id": NODES["id"]})
    write(tmp_path / "edges.csv", EDGES)
    write(tmp_path / "features.csv", {"id": ["anna", "cleo"], "a": [1, 2]})
    with pytest.raises(
        ValueError, match=r"features\.csv, column id: must name every node of nodes\.csv\. Got no row for 'bert'"
    ):
        load_dataset(tmp_path)


def test_standard_units_and_categories(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,age,city,zip\na,10,Oslo,1\nb,20,,2\nc,30,Rome,1\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    data = load_dataset(tmp_path, categorical="zip")
    assert data.feature_names == ["age", "city=Oslo", "city=Rome", "zip=1", "zip=2"]
    assert data.x[:, 0].tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert data.x[:, 1:].tolist() == [[1, 0, 1, 0], [0, 0, 0, 1], [0, 1, 1, 0]]
    assert load_dataset(tmp_path, ignore="city,zip").feature_names == ["age"]


def test_many_categories_are_sparse(tmp_path: Path) -> None:
    nodes = "".join(f"{node},{node % 40}x,{node}\n" for node in range(80))
    (tmp_path / "nodes.csv").write_text("id,word,size\n" + nodes)
    (tmp_path / "edges.csv").write_text("source,target\n")
    data = load_dataset(tmp_path, numbers="raw")
    assert data.x.layout == torch.sparse_csr
    dense = data.x.to_dense()
    assert dense[:, -1].tolist() == list(range(80))
    assert dense[:, :-1].sum(1).tolist() == [1] * 80
    assert dense[3, data.feature_names.index("word=3x")] == 1


def test_too_many_categories_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,name\n" + "".join(f"{node},n{node}\n" for node in range(1001)))
    (tmp_path / "edges.csv").write_text("source,target\n")
    message = r"nodes\.csv, column name: must hold .* at most 1,000 categories \(data\.ignore=name .*\)\. Got 1,001\."
    with pytest.raises(ValueError, match=message):
        load_dataset(tmp_path)
    assert load_dataset(tmp_path, ignore="name").get("x") is None


def test_the_vocabulary_keeps_its_meaning(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,age,city\na,red,10,Oslo\nb,blue,20,Rome\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    first = load_dataset(tmp_path)
    (tmp_path / "nodes.csv").write_text("id,city,label,age\nc,Rome,red,15\nd,Kyiv,,30\n")
    (tmp_path / "edges.csv").write_text("source,target\nc,d\n")
    second = load_dataset(tmp_path, vocabulary=first.vocabulary)
    assert second.x.tolist() == [[0, 0, 1], [3, 0, 0]]
    assert second.class_names == ["blue", "red"]
    assert second.y.tolist() == [1, -1]
    assert second.notes[0] == "column city: 1 unseen categories ('Kyiv') count as unknown"


def test_a_later_table_needs_neither_labels_nor_training_nodes(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    (tmp_path / "nodes.csv").write_text("id,colour,split\na,red,train\nb,blue,train\n")
    first = load_dataset(tmp_path, label="colour")
    assert first.notes == []
    for nodes in ("id\na\nb\n", "id,colour,split\na,,train\nb,,test\n", "id,colour\na,\nb,\n"):
        (tmp_path / "nodes.csv").write_text(nodes)
        later = load_dataset(tmp_path, label="colour", vocabulary=first.vocabulary)
        assert later.get("train_mask") is None
        assert later.notes == []


def test_two_tables_of_the_same_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "nodes.csv", NODES)
    write(tmp_path / "nodes.parquet", NODES)
    with pytest.raises(ValueError, match=r"must hold one table of nodes\. Got nodes\.csv, nodes\.parquet\."):
        load_dataset(tmp_path)
