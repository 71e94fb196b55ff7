"""Matrices of features: one row per node, dense or sparse, by id or in the order of the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpnn.data.tables.binary import array_column, place, read_archive, read_array, read_parquet_columns
from gpnn.data.tables.column import plain_column
from gpnn.data.tables.column_kinds import read_commas
from gpnn.data.tables.delimited import read_delimited
from gpnn.data.tables.table import Table, find_column, name_columns
from gpnn.storage.read import check_size, undamaged

if TYPE_CHECKING:
    import pyarrow
    from scipy.sparse import csr_matrix


MOST = 2**31 - 1  # rows, columns
INDICES = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}


@dataclass(frozen=True, eq=False)
class Matrix:
    """Features as a file has them.

    Attributes:
        file: the file's name, for errors.
        values: `[R, F]` float32, an array or a scipy CSR matrix.
        names: the name of each column, where the file has them.
        ids: a table with the node of each row in its column `id`; None where they are in the order of the nodes.
        notes: what the user should know of the reading.
    """

    file: str
    values: np.ndarray | csr_matrix
    names: list[str] | None = None
    ids: Table | None = None
    notes: tuple[str, ...] = ()


def read_npy_matrix(path: Path, id: str = "id", *, gaps: bool = False) -> Matrix:
    """A dense array of numbers `[R, F]` as numpy's `.npy`.

    Raises:
        ValueError: when it is anything else.
    """
    return Matrix(path.name, _dense(path, read_array(path)))


def read_npz_matrix(path: Path, id: str = "id", *, gaps: bool = False) -> Matrix:
    """One dense array `[R, F]` as numpy's `.npz`, beside an optional `id`; or what `scipy.sparse.save_npz` wrote.

    Raises:
        ValueError: when it is anything else.
    """
    arrays = read_archive(path)
    if "format" in arrays:
        return Matrix(path.name, read_sparse(path, arrays))
    ids = arrays.pop(find_column(arrays, id) or "id", None)
    if len(arrays) != 1:
        found = f"{len(arrays)} arrays, {', '.join(arrays)[:200]}"
        raise ValueError(f"{path.name} must hold one array of numbers or a scipy matrix. Got: {found}.")
    values = _dense(path, next(iter(arrays.values())))
    return Matrix(path.name, values, ids=None if ids is None else _ids(path, array_column(path, "id", ids), values))


def read_parquet_matrix(path: Path, id: str = "id", *, gaps: bool = False) -> Matrix:
    """Columns of numbers, or of lists of numbers all of one length, beside an optional `id`; with `gaps` some missing.

    Raises:
        ValueError: when it is anything else.
    """
    table = read_parquet_columns(path)
    columns = dict(zip(table.column_names, table.columns))
    ids = columns.pop(find_column(columns, id) or "id", None)
    blocks = {name: list_block(path, name, values.combine_chunks(), gaps=gaps) for name, values in columns.items()}
    if not blocks:
        raise ValueError(f"{path.name} must have columns of numbers. Got none.")
    names = []
    for name, block in blocks.items():
        names += [name] if block.shape[1] == 1 else [f"{name}_{number}" for number in range(block.shape[1])]
    values = _narrow(path, np.concatenate(list(blocks.values()), axis=1))
    return Matrix(path.name, values, names, None if ids is None else _ids(path, plain_column(ids), values))


def read_delimited_matrix(path: Path, id: str = "id", *, gaps: bool = False) -> Matrix:
    """Columns of numbers separated by commas or tabs, beside an optional `id`; with `gaps` some missing."""
    table = read_delimited(path)
    table = name_columns(table, {"id": find_column(table.columns, id) or "id"})
    names = [name for name in table.columns if name != "id"]
    table = read_commas(table, names)
    if not names:
        raise ValueError(f"{table.file} must have columns of numbers. Got none.")
    check_size(table.file, 4 * table.num_rows * len(names))
    values = np.empty((table.num_rows, len(names)), np.float32)
    with np.errstate(over="ignore"):
        for number, name in enumerate(names):
            values[:, number] = table.numbers(name, gaps=gaps)
    return Matrix(table.file, values, names, table if "id" in table.columns else None, table.notes)


def _ids(path: Path, ids: pyarrow.Array, values: np.ndarray) -> Table:
    if len(ids) != len(values):
        raise ValueError(f"{path.name} must have one id for each of its {len(values)} rows. Got {len(ids)}.")
    return Table(path.name, {"id": ids}, place)


def _dense(path: Path, values: np.ndarray) -> np.ndarray:
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        found = f"an array of {values.ndim} dimensions and type {values.dtype}"
        raise ValueError(f"{path.name} must hold one array of numbers or a scipy matrix. Got: {found}.")
    return _narrow(path, values)


def check_finite(matrix: Matrix, first: int = 0) -> None:
    """Raise ValueError where a value is infinite or missing, naming its row, counted from `first`, and column."""
    values = matrix.values if isinstance(matrix.values, np.ndarray) else matrix.values.data
    if not values.size or (np.isfinite(values.min()) and np.isfinite(values.max())):
        return
    entry = int((~np.isfinite(values.ravel())).argmax())
    if isinstance(matrix.values, np.ndarray):
        row, column = divmod(entry, values.shape[1])
    else:
        row = int(np.searchsorted(matrix.values.indptr, entry, side="right")) - 1
        column = int(matrix.values.indices[entry])
    where = f"{matrix.file}, {place(first + row)}, column {column}"
    raise ValueError(f"{where}: must be a finite number of 32 bits. Got {values.ravel()[entry]}.")


def _narrow(path: Path, values: np.ndarray) -> np.ndarray:
    """The values as float32, themselves where they are; those past its range become infinite."""
    check_size(path.name, 4 * values.size)
    with np.errstate(over="ignore"):
        return np.require(values, np.float32, ["C", "W"])


def list_block(path: Path, name: str, values: Any, *, gaps: bool = False) -> np.ndarray:
    """One column as `[R, W]`: of lists of W numbers, else W = 1; with `gaps` NaN where one is missing."""
    import pyarrow
    from pyarrow import compute, types

    width, kind = 1, values.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lengths = compute.min_max(compute.list_value_length(values))
        least, width = lengths["min"].as_py() or 0, lengths["max"].as_py() or 0
        if values.null_count or least != width:
            raise ValueError(f"{path.name}, column {name[:80]}: must hold lists of one length. Got {least} to {width}.")
        values = values.flatten()
    kind = values.type
    missing = 0 if gaps else values.null_count
    if missing or not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
        got = f"{missing} gaps" if missing else str(kind)
        raise ValueError(f"{path.name}, column {name[:80]}: must hold numbers, none missing. Got {got}.")
    values = values.cast(pyarrow.int8()) if types.is_boolean(kind) else values
    numbers = values.cast(pyarrow.float64(), safe=False).fill_null(np.nan)
    return np.asarray(numbers).reshape(-1, max(width, 1))


def read_sparse(path: Path, arrays: dict[str, np.ndarray]) -> csr_matrix:
    """The matrix of an archive's arrays, float32; an index out of range would be read as memory, so all are checked.

    Args:
        path: the archive, for errors.
        arrays: its arrays by name.

    Raises:
        ValueError: when they are not a matrix of numbers.
    """
    errors = (KeyError, ValueError, TypeError, AttributeError, OverflowError, IndexError)
    with undamaged(path.name, "hold one array of numbers or a scipy matrix", errors):
        return _assemble(path, arrays)


def _assemble(path: Path, arrays: dict[str, np.ndarray]) -> csr_matrix:
    from scipy import sparse

    kind = str(arrays["format"].astype(str))
    if kind not in INDICES:
        raise ValueError(f"the format {kind[:20]!r} (csr, csc and coo are read)")
    shape = tuple(int(length) for length in arrays["shape"])
    if len(shape) != 2 or min(shape) < 0 or max(shape) > MOST:
        raise ValueError(f"shape {list(shape)}")
    values, first, second = arrays["data"], *(arrays[name] for name in INDICES[kind])
    for part, kinds in ((values, "biuf"), (first, "iu"), (second, "iu")):
        if part.ndim != 1 or part.dtype.kind not in kinds:
            raise ValueError(f"an array of {part.ndim} dimensions and type {part.dtype}")
    check_size(path.name, 16 * len(values) + 8 * sum(shape))
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    first, second = first.astype(np.int64), second.astype(np.int64)
    if kind == "coo":
        return sparse.coo_matrix((values, (first, second)), shape=shape).tocsr()
    matrix = getattr(sparse, f"{kind}_matrix")((values, first, second), shape=shape)
    matrix.check_format(full_check=True)
    return matrix.tocsr()
