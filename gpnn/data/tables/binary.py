"""Binary tables: numpy's `.npy` and `.npz` without unpickling, and Parquet; declared sizes are never trusted."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from gpnn.data.npy_file import parse_header
from gpnn.data.tables.column import plain_column
from gpnn.data.tables.table import Table
from gpnn.storage.read import check_size, undamaged

if TYPE_CHECKING:
    import pyarrow


KINDS = "biufSU"  # booleans, whole numbers, numbers, bytes, text: nothing that must be unpickled
# what zipfile and numpy raise on damaged bytes
DAMAGES = (
    ValueError, OSError, KeyError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError,
    OverflowError, SyntaxError, TypeError, IndexError, MemoryError, UnicodeError, tokenize.TokenError,
)  # fmt: skip
CHUNK = 1 << 20  # bytes of an array read at a time
CHECKED = {"page_checksum_verification": True}  # of pages of Parquet that have one
ROWS = 1 << 20  # read at a time, so that a file that unpacks without end is noticed


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name.

    Raises:
        ValueError: when it is not an archive of arrays of numbers or text, or its content is too large.
    """
    with undamaged(path.name, "hold arrays of numbers or text", DAMAGES), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        check_size(path.name, sum(member.file_size for member in members))
        return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}


def read_array(path: Path) -> np.ndarray:
    """The array of an `.npy` file.

    Raises:
        ValueError: when it holds no array of numbers or text.
    """
    with undamaged(path.name, "hold an array of numbers or text", DAMAGES), path.open("rb") as file:
        size = path.stat().st_size
        check_size(path.name, size)
        return _read(file, size)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    if not member.filename.endswith(".npy"):
        raise ValueError(f"a member {member.filename[:80]!r}")
    with archive.open(member) as file:
        return _read(file, member.file_size)


def _read(file: IO[bytes], size: int) -> np.ndarray:
    """The array of a stream of `size` bytes, whose header must declare exactly these bytes."""
    shape, by_columns, dtype = parse_header(file)
    if dtype.kind not in KINDS or dtype.hasobject:
        raise ValueError(f"an array of type {dtype}")
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != size - file.tell():
        raise ValueError(f"an array of shape {list(shape)} and type {dtype} in {size} bytes")
    values = np.empty(math.prod(shape), dtype)
    if values.nbytes:
        fill(values.view(np.uint8).data, file)
    return values.reshape(shape, order="F" if by_columns else "C")


def fill(target: memoryview, file: IO[bytes]) -> None:
    """Read as many bytes as `target` has, and to the end, where an archive checks them; no second copy is made."""
    start = 0
    while chunk := file.read(CHUNK):
        target[start : start + len(chunk)] = chunk
        start += len(chunk)
    if start != len(target):
        raise ValueError(f"{start} bytes of {len(target)}")


def read_npz(path: Path) -> Table:
    """A table whose columns are the arrays of an archive; `edge_index` `[2, E]` stands for `source` and `target`.

    Raises:
        ValueError: when an array is not a column, or their lengths differ.
    """
    arrays = read_archive(path)
    pair = arrays.pop("edge_index", None)
    if pair is not None:
        if pair.ndim != 2 or pair.shape[0] != 2:
            raise ValueError(f"{path.name}, edge_index: must have shape [2, E]. Got {list(pair.shape)}.")
        arrays |= {"source": pair[0], "target": pair[1]}
    columns = {name: array_column(path, name, values) for name, values in arrays.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"{path.name} must hold arrays of one length. Got {shown}.")
    return Table(path.name, columns, lambda row: f"entry {row} (from 0)")


def array_column(path: Path, name: str, values: np.ndarray) -> pyarrow.Array:
    """An array of one dimension as a plain column."""
    import pyarrow

    if values.ndim != 1:
        raise ValueError(f"{path.name}, {name}: must have one dimension. Got shape {list(values.shape)}.")
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    try:
        return plain_column(pyarrow.array(np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))))
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path.name}, {name}: must hold text or numbers. Got {values.dtype}: {error}.") from None


def read_parquet(path: Path) -> Table:
    """A table of columns of text and numbers.

    Raises:
        ValueError: when it is not a Parquet file, or unpacks to too much.
    """
    return plain_table(path.name, read_parquet_columns(path))


def plain_table(file: str, table: pyarrow.Table) -> Table:
    """An arrow table as plain columns; `file` is what errors call it.

    Raises:
        ValueError: when a column has no name of its own.
    """
    check_distinct(file, table.column_names)
    columns, others = plain_columns(table)
    return Table(file, columns, place, others=others)


def plain_columns(table: pyarrow.Table | pyarrow.RecordBatch) -> tuple[dict[str, pyarrow.Array], dict[str, str]]:
    """The columns of an arrow table or a batch of one, in plain kinds, by name; and the types of those of no such."""
    import pyarrow

    columns, others = {}, {}
    for name, values in zip(table.schema.names, table.columns):
        try:
            columns[name] = plain_column(values)
        except (TypeError, ValueError, pyarrow.ArrowException):
            others[name] = str(values.type)
    return columns, others


def check_distinct(file: str, names: list[str]) -> None:
    """Raise ValueError where a column has no name, or the name of another."""
    if len(set(names)) != len(names) or "" in names:
        raise ValueError(f"{file}: every column must have a name of its own. Got {', '.join(names)[:200]!r}.")


def read_parquet_columns(path: Path, wanted: Sequence[str] | None = None) -> pyarrow.Table:
    """The columns of a Parquet file in arrow's own types, names distinct, size checked while it is read.

    Args:
        path: the file.
        wanted: the names of columns to read, where there are such; None: all.
    """
    import pyarrow

    with open_parquet(path) as file:
        check_distinct(path.name, file.schema_arrow.names)
        batches, size, schema = [], 0, file.schema_arrow
        names = [name for name in schema.names if wanted is None or name in wanted]
        for batch in file.iter_batches(batch_size=ROWS, columns=names):
            size += batch.nbytes
            check_size(path.name, size)
            batches.append(batch)
        return pyarrow.Table.from_batches(batches, pyarrow.schema([schema.field(name) for name in names]))


@contextmanager
def open_parquet(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    """A Parquet file, the checksums of whose pages, where they have one, are verified.

    Raises:
        ValueError: when it is not such a file, or what is read of it is damaged.
    """
    import pyarrow
    from pyarrow import parquet

    errors = (pyarrow.ArrowException, OSError, KeyError, UnicodeError)
    with undamaged(path.name, "be a Parquet file", errors), parquet.ParquetFile(path, **CHECKED) as file:
        yield file


def place(row: int) -> str:
    """The place of a row in a file without lines."""
    return f"row {row} (from 0)"
