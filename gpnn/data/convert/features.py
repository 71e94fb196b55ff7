"""Features written to the disk block by block: dense as float32, float16 or 8 bits, or sparse CSR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.convert.pieces import Piece
from gpnn.data.stored.npy_file import NpyWriter, read_header, read_rows
from gpnn.data.tables.matrix import Matrix, check_finite, list_block
from gpnn.storage.read import reason

BLOCK_BYTES = 64e6  # of features that are read at a time
LEVELS = 127  # of 8 bits, on either side of zero

Blocks = Callable[[], Iterable[Tensor]]  # the features of all nodes, some rows `[n, F]` at a time; may be read twice


def write_features(folder: Path, blocks: Blocks, dtype: str) -> int:
    """Write `x.npy`, with `x_scale.npy` for "int8", or `x_ptr.npy`, `x_col.npy` and `x_value.npy`; the width F."""
    first = next(iter(blocks()))
    if first.layout == torch.sparse_csr:
        _write_sparse(folder, blocks())
        return first.shape[1]
    scale = _scale(blocks()) if dtype == "int8" else None
    if scale is not None:
        with NpyWriter(folder / "x_scale.npy", np.float32) as file:
            file.append(scale)
    with NpyWriter(folder / "x.npy", dtype, (first.shape[1],)) as file:
        for block in blocks():
            values = block.numpy()
            file.append(values if scale is None else np.rint(values / np.where(scale > 0, scale, 1)))
    return first.shape[1]


def _scale(blocks: Iterable[Tensor]) -> np.ndarray:
    """What one level of 8 bits stands for in each column, float32 `[F]`."""
    most: Any = 0.0
    for block in blocks:
        most = np.maximum(most, np.abs(block.numpy()).max(0, initial=0.0))
    return (most / LEVELS).astype(np.float32)


def _write_sparse(folder: Path, blocks: Iterable[Tensor]) -> None:
    kinds = {"x_ptr": np.int64, "x_col": np.int32, "x_value": np.float32}
    with ExitStack() as stack:
        files = [stack.enter_context(NpyWriter(folder / f"{name}.npy", kind)) for name, kind in kinds.items()]
        files[0].append(np.zeros(1, np.int64))
        for block in blocks:
            files[0].append(block.crow_indices().numpy()[1:].astype(np.int64) + files[1].num_rows)
            files[1].append(block.col_indices().numpy())
            files[2].append(block.values().numpy())


def array_blocks(path: Path) -> Blocks:
    """The rows of a `.npy` file `[N, F]`, read as they are needed.

    Raises:
        ValueError: for an array of other dimensions, or a value that is not finite, with its row.
    """
    header = read_header(path)
    if len(header.shape) != 2:
        raise ValueError(f"{path.name} must have shape [N, F]. Got {list(header.shape)}.")
    rows = max(1, int(BLOCK_BYTES / max(1, 4 * header.shape[1])))

    def blocks() -> Iterator[Tensor]:
        for start in range(0, max(1, header.shape[0]), rows):
            values = read_rows(path, header, start, min(start + rows, header.shape[0]))
            yield _finite(path.name, values, start)

    return blocks


def list_blocks(pieces: Iterable[Piece], column: str, rows: int, progress: Callable[[], None]) -> Blocks:
    """The rows of a column of lists in Parquet files, read as they are needed."""

    def blocks() -> Iterator[Tensor]:
        import pyarrow
        from pyarrow import parquet

        for piece in pieces:
            first = piece.first_row
            try:
                with parquet.ParquetFile(piece.path, page_checksum_verification=True) as file:
                    for batch in file.iter_batches(rows, range(piece.start, piece.stop), [column], use_threads=False):
                        values = list_block(piece.path, column, batch.column(0))
                        yield _finite(piece.path.name, values, first)
                        first += len(values)
            except (pyarrow.ArrowException, OSError) as error:
                raise ValueError(f"{piece.path.name} must be a Parquet file. Got: {reason(error)}.") from None
            progress()

    return blocks


def _finite(file: str, values: np.ndarray, first: int) -> Tensor:
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(values, np.float32)
    check_finite(Matrix(file, narrow), first)
    return torch.from_numpy(narrow)
