"""Tables as `.npz`: one array a column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpnn.data.tables.archive import read_archive
from gpnn.data.tables.column import plain_column
from gpnn.data.tables.table import Table

if TYPE_CHECKING:
    import pyarrow


def read_npz(path: Path) -> Table:
    """A table whose columns are the arrays of an archive; `edge_index` `[2, E]` stands for `source` and `target`.

    Raises:
        ValueError: when an array is no column, or their lengths differ.
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
