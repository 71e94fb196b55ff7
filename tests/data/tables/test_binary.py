"""Binary tables that ask for too much or hold what they must not: one error, before memory is used."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from gpnn.data.tables.binary import read_archive, read_array, read_npz, read_parquet
from gpnn.data.tables.table import name_columns
from gpnn.storage import read


def array_bytes(shape: tuple[int, ...], dtype: str = "<f8", content: bytes = b"") -> bytes:
    """An `.npy` whose header declares what it likes."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


@pytest.mark.parametrize("shape", [(2**62,), (2**40, 2**40), (-5,), (3,)])
def test_an_array_must_hold_what_it_declares(tmp_path: Path, shape: tuple[int, ...]) -> None:
    (tmp_path / "a.npy").write_bytes(array_bytes(shape))
    with pytest.raises(ValueError, match=r"a\.npy must hold an array of numbers or text\. Got: "):
        read_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", array_bytes(shape))
    with pytest.raises(ValueError, match=r"a\.npz must hold arrays of numbers or text\. Got: "):
        read_archive(tmp_path / "a.npz")


def test_an_archive_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "memory_limit", lambda: 1 << 20)
    np.savez_compressed(tmp_path / "bomb.npz", np.zeros(1 << 20))
    assert (tmp_path / "bomb.npz").stat().st_size < 20_000
    with pytest.raises(ValueError, match=r"bomb\.npz must unpack to at most .* that a file may take here\. Got"):
        read_archive(tmp_path / "bomb.npz")


def test_a_parquet_file_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(pyarrow.table({"id": np.zeros(1 << 20)}), tmp_path / "bomb.parquet")
    monkeypatch.setattr(read, "memory_limit", lambda: 1 << 20)
    assert (tmp_path / "bomb.parquet").stat().st_size < 50_000
    with pytest.raises(ValueError, match=r"bomb\.parquet must unpack to at most"):
        read_parquet(tmp_path / "bomb.parquet")


@pytest.mark.parametrize("values", [np.array([print], object), np.array([1 + 2j]), np.array(["2020"], "M8[D]")])
def test_what_would_be_unpickled_or_is_no_number(tmp_path: Path, values: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", values)
    with pytest.raises(ValueError, match=r"a\.npz must hold arrays of numbers or text\. Got: an array of type"):
        read_archive(tmp_path / "a.npz")


def test_members_that_are_no_arrays_or_encrypted(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("../../escape.txt", "words")
    with pytest.raises(ValueError, match=r"Got: a member '\.\./\.\./escape\.txt'\."):
        read_archive(tmp_path / "a.npz")
    content = io.BytesIO()
    np.savez(content, np.zeros(2))
    locked = bytearray(content.getvalue())
    for mark in (b"PK\x03\x04", b"PK\x01\x02"):
        start = locked.find(mark) + (6 if mark.endswith(b"\x04") else 8)
        locked[start] |= 1
    (tmp_path / "a.npz").write_bytes(bytes(locked))
    with pytest.raises(ValueError, match=r"a\.npz must hold arrays of numbers or text\. Got: .*encrypted"):
        read_archive(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"source": [1], "target": [1, 2]}, r"must hold arrays of one length\. Got source 1, target 2\."),
        ({"source": [[1]]}, r"source: must have one dimension\. Got shape \[1, 1\]\."),
        ({"edge_index": [1, 2, 3]}, r"edge_index: must have shape \[2, E\]\. Got \[3\]\."),
    ],
)
def test_arrays_that_are_no_table(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "e.npz", **{name: np.array(values) for name, values in arrays.items()})
    with pytest.raises(ValueError, match=message):
        read_npz(tmp_path / "e.npz")


def test_columns_that_are_no_values(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"id": [[1]]}), tmp_path / "n.parquet")
    table = read_parquet(tmp_path / "n.parquet")
    assert (table.columns, table.others) == ({}, {"id": "list<element: int64>"})
    with pytest.raises(ValueError, match=r"n\.parquet, column id: must hold text or numbers \(.*\)\. Got list"):
        name_columns(table, {"id": "id"})


@pytest.mark.thorough
def test_an_array_is_read_without_a_second_copy(tmp_path: Path) -> None:
    values = np.arange(3_000_000, dtype=np.int32).reshape(3, -1)
    np.savez_compressed(tmp_path / "a.npz", values=np.asfortranarray(values), none=np.zeros((0, 4)))
    tracemalloc.start()
    arrays = read_archive(tmp_path / "a.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(arrays["values"], values)
    assert arrays["none"].shape == (0, 4)
    assert peak < 1.5 * values.nbytes
