"""METIS graph files, small enough to check by hand."""

from pathlib import Path

import pytest

from gpnn.data import load_dataset
from gpnn.data.tables.metis import read_metis


def write(folder: Path, text: str) -> Path:
    (folder / "small.graph").write_text(text)
    return folder / "small.graph"


def test_a_path_of_three_and_an_isolated_node(tmp_path: Path) -> None:
    edges, num_nodes = read_metis(write(tmp_path, "% a path\n4 2\n2\n1 3\n2\n\n"))
    assert num_nodes == 4
    assert edges.columns["source"].to_pylist() == [1, 2, 2, 3]
    assert edges.columns["target"].to_pylist() == [2, 1, 3, 2]


@pytest.mark.parametrize(
    ("text", "weights"),
    [("2 1 1\n2 7\n1 7\n", [7, 7]), ("2 1 011 2\n5 6 2 7\n5 6 1 7\n", [7, 7]), ("2 1 110\n9 5 2\n9 5 1\n", None)],
)
def test_weights(tmp_path: Path, text: str, weights: list[int] | None) -> None:
    edges, _ = read_metis(write(tmp_path, text))
    assert edges.columns["target"].to_pylist() == [2, 1]
    assert (edges.columns["weight"].to_pylist() if weights else None) == weights


def test_as_a_dataset_and_beside_a_table_of_nodes(tmp_path: Path) -> None:
    path = write(tmp_path, "3 2\n2\n1 3\n2\n")
    data = load_dataset(path)
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.node_name.tolist() == [1, 2, 3]
    path.rename(tmp_path / "edges.graph")
    (tmp_path / "nodes.csv").write_text("id,label\n3,a\n1,b\n2,a\n")
    assert load_dataset(tmp_path).edge_index.tolist() == [[1, 2, 2, 0], [2, 1, 0, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"small\.graph, line 1: must be N and M, .* Got nothing\."),
        ("3\n", r"line 1: must be N, M and perhaps a format and a count\. Got '3'\."),
        ("2 1\n2\n3\n", r"line 3: neighbours must be from 1 to 2\. Got 3\."),
        ("% one\n2 1\n% two\n2\n0\n", r"line 5: neighbours must be from 1 to 2\. Got 0\."),
        ("2 2\n2\n1\n", r"must name every edge twice, once per direction\. Got 2 for 2 edges\."),
        ("2 1\n2\nx\n", r"line 3: must hold whole numbers\. Got 'x'\."),
        ("2 1\n2\n99999999999999999999\n", r"line 3: must hold whole numbers\. Got '99999999999999999999'\."),
        ("9999999999999 1\n2\n1\n", r"must have a line for each of the 9999999999999 nodes\. Got 2\."),
        ("2 1 7\n2\n1\n", r"line 1: the format must be three digits 0 or 1\. Got 7\."),
        ("2 1 1\n2 7\n1\n", r"line 3: a weight must follow every neighbour\. Got an odd count\."),
        ("1 0\n\n1\n", r"must have 1 lines of neighbours\. Got more: line 3\."),
    ],
)
def test_mistakes_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_metis(write(tmp_path, text))


def test_many_comments_are_counted_in_one_pass(tmp_path: Path) -> None:
    text = "% before\n" * 300_000 + "2 1\n% within\n2\n1 x\n"  # minutes where each counts the lines before it
    with pytest.raises(ValueError, match=r"small\.graph, line 300004: must hold whole numbers\. Got 'x'\."):
        read_metis(write(tmp_path, text))
