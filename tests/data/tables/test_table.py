"""Ids of tables: numbers and their text are one id, other spellings are not."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest

from gpnn.data import load_dataset
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
