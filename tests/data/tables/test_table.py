"""Ids of tables: numbers and their text are one id, other spellings are not."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest

import gpnn
from gpnn.data import load_dataset
from gpnn.data.tables.table import find_column
from tests.data.tables.example import write


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


def load(folder: Path, nodes: str, edges: str, **options):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return gpnn.load_dataset(folder, **options)


@pytest.mark.parametrize(
    ("nodes", "edges", "options"),
    [
        ("id,label", "source,target,type,weight", {}),
        ("ID,Label", "Source,TARGET,Type,Weight", {}),
        ("person:ID(Person),:LABEL", ":START_ID(Person),:END_ID(Person),:TYPE,weight", {}),
        ("name,hobby", "from,to,kind,strength", {"id": "name", "label": "hobby", "source": "from", "target": "to",
                                                 "type": "kind", "weight": "strength"}),
        ("Name,Hobby", "From,To,type,weight", {"id": "name", "label": "hobby", "source": "from", "target": "to"}),
    ],
)  # fmt: skip
def test_the_same_graph_by_other_names(tmp_path: Path, nodes: str, edges: str, options):
    data = load(tmp_path, f"{nodes}\nanna,red\nbert,\n", f"{edges}\nbert,anna,x,0.5\n", **options)
    assert data.node_name.tolist() == ["anna", "bert"]
    assert data.edge_index.tolist() == [[1], [0]]
    assert (data.y.tolist(), data.class_names) == ([0, -1], ["red"])
    assert (data.edge_type_names, data.edge_weight.tolist()) == (["x"], [0.5])


def test_exact_names_come_before_others():
    assert find_column(["Id", "ID", "id"], "id") == "id"
    assert find_column(["Id", "ID"], "id") is None
    assert find_column(["a:ID", "b:ID"], "id") is None


def test_errors_use_the_names_of_the_file(tmp_path: Path):
    with pytest.raises(ValueError, match=r"^edges\.csv, line 2, column to: must be an id of nodes\.csv\. Got 'zoe'\.$"):
        load(tmp_path, "name\nanna\n", "from,to\nanna,zoe\n", id="name", source="from", target="to")
    with pytest.raises(ValueError, match=r"^edges\.csv must have a column start\. Got from, to\.$"):
        load(tmp_path, "id\nanna\n", "from,to\nanna,anna\n", source="start", target="to")


@pytest.mark.parametrize(
    ("header", "hint"),
    [("src,dst", "data.source=src"), ("From,To", "data.source=From"), ("u,v", "data.source=u")],
)
def test_likely_names_are_suggested(tmp_path: Path, header: str, hint: str):
    with pytest.raises(ValueError, match=rf"must have a column source \({hint} takes that for it\)\. Got "):
        load(tmp_path, "id\nanna\n", f"{header}\nanna,anna\n")


def test_trained_columns_are_found_in_any_case():
    edges = pyarrow.table({"source": [0], "target": [1]})
    first = gpnn.from_frames(pyarrow.table({"id": [0, 1], "Age": [1.0, 3.0]}), edges)
    later = gpnn.from_frames(pyarrow.table({"ID": [0, 1], "AGE": [5.0, 3.0]}), edges, first.vocabulary)
    assert later.x.tolist() == [[3.0], [1.0]]


def test_a_matrix_uses_the_name_of_the_ids(tmp_path: Path):
    (tmp_path / "features.csv").write_text("Name,x\nbert,2\nanna,1\n")
    data = load(tmp_path, "name\nanna\nbert\n", "source,target\nanna,bert\n", id="name")
    assert data.x.tolist() == [[1.0], [2.0]]
