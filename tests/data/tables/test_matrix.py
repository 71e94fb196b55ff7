"""Matrices of features: every format gives the same rows, and what is not a matrix is refused."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix, save_npz

from gpnn.data import load_dataset
from gpnn.data.tables.matrix import read_npz_matrix, read_parquet_matrix
from tests.data.tables.example import EDGES, NODES, write

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


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"shape": [4, 2**40]}, r"Got: shape"),
        ({"shape": [4]}, r"Got: shape \[4\]"),
        ({"format": "dia"}, r"Got: the format 'dia' \(csr, csc and coo are read\)"),
        ({"indices": [7]}, r"Got: "),
        ({"indices": [-1]}, r"Got: "),
        ({"indptr": [0, 5, 1, 1, 1]}, r"Got: "),
        ({"indptr": [0, 1]}, r"Got: "),
        ({"data": ["a"]}, r"Got: an array of 1 dimensions and type <U1"),
    ],
)
def test_sparse_matrices_that_point_outside(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    sound = {"format": "csr", "shape": [4, 2], "data": [1.0], "indices": [1], "indptr": [0, 1, 1, 1, 1]}
    np.savez(tmp_path / "a.npz", **{name: np.array(value) for name, value in (sound | parts).items()})
    with pytest.raises(ValueError, match=rf"a\.npz must hold one array of numbers or a scipy matrix\. {message}"):
        read_npz_matrix(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [[1.0], [1.0, 2.0]]}, r"column x: must hold lists of one length\. Got 1 to 2\."),
        ({"x": [1.0, None]}, r"column x: must hold numbers, none missing\. Got 1 gaps\."),
        ({"x": ["a", "b"]}, r"column x: must hold numbers, none missing\. Got string\."),
        ({"id": [1, 2]}, r"must have columns of numbers\. Got none\."),
    ],
)
def test_parquet_features_that_are_none(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    parquet.write_table(pyarrow.table(columns), tmp_path / "f.parquet")
    with pytest.raises(ValueError, match=message):
        read_parquet_matrix(tmp_path / "f.parquet")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_of_32_bits_is_read_without_a_second_copy(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "features.npz", np.zeros((1000, 2000), np.float32))
    tracemalloc.start()
    try:
        values = read_npz_matrix(tmp_path / "features.npz").values
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert values.nbytes < peak < 1.5 * values.nbytes
