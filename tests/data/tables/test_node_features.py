"""Features of nodes: by id, in standard units, as categories."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gpnn.data import load_dataset
from tests.data.tables.example import EDGES, NODES, write


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


def test_a_number_past_32_bits_is_named(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,mass\na,1\nb,1e39\nc,3\n")  # scaled it would fit
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(
        ValueError, match=r"nodes\.csv, line 3, column mass: must be a finite number of 32 bits\. Got '?1e\+?39'?\."
    ):
        load_dataset(tmp_path)
