"""Columns are found by the user's name, in any case, and by Neo4j's marks."""

from pathlib import Path

import pyarrow
import pytest

import gpnn
from gpnn.data.tables.headers import find_column


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
