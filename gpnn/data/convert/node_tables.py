"""The tables of the nodes: ids, labels and splits in memory; features in two passes, written block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.convert.gather import ordered_map
from gpnn.data.convert.pieces import Piece, parquet_batches, read_batches
from gpnn.data.npy_file import NpyWriter, read_header, read_rows, write_array
from gpnn.data.tables import join_tables
from gpnn.data.tables.assemble import comma_columns
from gpnn.data.tables.column import sorted_names
from gpnn.data.tables.column_kinds import MOST_CATEGORIES, choose_categories, choose_column, read_commas, read_numbers
from gpnn.data.tables.matrix import Matrix, check_finite, list_block
from gpnn.data.tables.node_features import Columns, encode_columns
from gpnn.data.tables.table import Table
from gpnn.data.tables.vocabulary import CategoryColumn, Choices, NumberColumn, TextColumn

Column = NumberColumn | CategoryColumn
BLOCK_BYTES = 64e6  # of features that are read at a time
LEVELS = 127  # of 8 bits, on either side of zero
Blocks = Callable[[], Iterable[Tensor]]  # the features of all nodes, some rows `[n, F]` at a time; may be read twice


@dataclass(frozen=True)
class NodeTables:
    """The tables of the nodes, file after file.

    Attributes:
        pieces: of the files.
        rows: of a batch.
        choices: which columns count, and how.
        names: the columns, which all files must have.
    """

    pieces: Sequence[Piece]
    rows: int
    choices: Choices
    names: Sequence[str]

    @property
    def own(self) -> list[str]:
        """The columns that are not features: id, label and split."""
        return [name for name in ("id", self.choices.label, "split") if name in self.names]

    @property
    def further(self) -> list[str]:
        """The columns that are features."""
        return [name for name in self.names if name not in (*self.own, *self.choices.ignore)]

    def read_own(self) -> Table:
        """Ids, labels and splits of all nodes.

        Raises:
            ValueError: when a file lacks a column, or cannot be read.
        """
        parts = []
        for batch in self._batches(self.own):
            batch.require(self.own)
            parts.append(replace(batch, columns={name: batch.columns[name] for name in self.own}))
        return join_tables(parts, "the nodes")

    def survey(self, progress: Callable[[], None]) -> tuple[Columns, list[str]]:
        """What each column of features means, from all rows; and notes.

        Raises:
            ValueError: for numbers and text in one column, a missing number, or too many categories.
        """
        found: dict[str, _Survey] = {name: _Survey(name) for name in self.further}
        notes: list[str] = []
        for batch in self._batches(self.further, progress):
            batch.require(self.further)
            notes += [note for note in batch.notes if note not in notes]
            for survey in found.values():
                survey.add(batch, self.choices)
        columns = [survey.column(self.choices) for survey in found.values()]
        notes += [f"column {column.name} is empty and left out" for column in columns if not column.feature_names]
        return tuple(column for column in columns if column.feature_names), notes

    def encode(self, columns: Columns, progress: Callable[[], None]) -> Iterator[Any]:
        """The features, dense or sparse CSR tensors of some rows `[n, F]` each, in the order of the nodes."""
        for batch in self._batches([column.name for column in columns], progress):
            yield encode_columns(batch, columns)[0]

    def _batches(self, names: Sequence[str], progress: Callable[[], None] = lambda: None) -> Iterator[Table]:
        for piece in self.pieces:
            for batch in read_batches(piece, self.rows, self.choices.node_names, names):
                yield read_commas(batch, [name for name in comma_columns(batch, self.choices) if name in names])
            progress()


class _Survey:
    """What a column holds, batch after batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.first: Column | None = None
        self.count, self.mean, self.spread = 0, 0.0, 0.0  # Chan's update of mean and sum of squares
        self.categories: set[Any] = set()
        self.gaps = False
        self.num_batches = 0

    def add(self, batch: Table, choices: Choices) -> None:
        if not batch.num_rows:
            return
        column = choose_column(batch, self.name, categorical=choices.categorical)
        if isinstance(column, TextColumn):  # which only the whole column shows
            column = choose_categories(batch, self.name)
        if isinstance(column, CategoryColumn):
            self.categories |= set(column.categories)
        else:
            numbers = read_numbers(batch, self.name, date=column.date)
            numbers = numbers[~np.isnan(numbers)]
            self.gaps, count = self.gaps or column.gaps, max(1, len(numbers))
            shift, total = column.mean - self.mean, self.count + count
            variance = float(numbers.var()) if len(numbers) else 0.0
            self.spread += count * variance + shift * shift * self.count * count / total
            self.mean, self.count = self.mean + shift * count / total, total
        if self.first is not None and type(self.first) is not type(column):
            hint = f", like the others (--categorical {self.name} makes all of them categories)"
            batch.refuse(self.name, 0, f"must be a finite number{hint}")
        self.first, self.num_batches = self.first or column, self.num_batches + 1

    def column(self, choices: Choices) -> Column:
        if isinstance(self.first, NumberColumn):
            gaps, date = self.gaps, self.first.date
            if choices.numbers == "raw":
                return NumberColumn(self.name, gaps=gaps, date=date)
            if choices.numbers == "normal":
                raise ValueError("Numbers of converted tables must be 'standard' or 'raw'. Got 'normal'.")
            if self.num_batches == 1:
                return self.first  # to the same bits as a table that is read at once
            deviation = float(np.sqrt(self.spread / self.count)) or 1.0
            return NumberColumn(self.name, self.mean, deviation, gaps=gaps, date=date)
        names = sorted_names(self.categories)
        if len(names) > MOST_CATEGORIES:
            raise ValueError(
                f"The nodes, column {self.name[:80]}: must hold numbers or at most {MOST_CATEGORIES:,} categories "
                f"(--ignore {self.name} leaves it out). Got {len(names):,}."
            )
        return CategoryColumn(self.name, tuple(names))


def write_features(folder: Path, blocks: Blocks, dtype: str) -> int:
    """Write `x.npy`, with `x_scale.npy` for "int8", or `x_ptr.npy`, `x_col.npy` and `x_value.npy`; the width F."""
    others = iter(blocks())
    first = next(others)
    given: Iterable[Tensor] = chain([first], others)
    if first.layout == torch.sparse_csr:
        _write_sparse(folder, given)
        return first.shape[1]
    scale = None
    if dtype == "int8":
        scale, given = _scale(given), blocks()
        write_array(folder / "x_scale.npy", scale)
    with NpyWriter(folder / "x.npy", dtype, (first.shape[1],)) as file:
        for block in given:
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


def array_blocks(path: Path, threads: int) -> Blocks:
    """The rows of a `.npy` file `[N, F]`, read by threads as they are needed.

    Raises:
        ValueError: for an array of other dimensions, or a value that is not finite, with its row.
    """
    header = read_header(path)
    if len(header.shape) != 2:
        raise ValueError(f"{path.name} must have shape [N, F]. Got {list(header.shape)}.")
    rows = max(1, int(BLOCK_BYTES / max(1, 4 * header.shape[1])))

    def read(start: int) -> Tensor:
        return _finite(path.name, read_rows(path, header, start, min(start + rows, header.shape[0])), start)

    return lambda: ordered_map(read, range(0, max(1, header.shape[0]), rows), threads)


def list_blocks(pieces: Iterable[Piece], column: str, rows: int, progress: Callable[[], None]) -> Blocks:
    """The rows of a column of lists in Parquet files, read as they are needed."""

    def blocks() -> Iterator[Tensor]:
        for piece in pieces:
            for first, batch in parquet_batches(piece, rows, [column]):
                yield _finite(piece.path.name, list_block(piece.path, column, batch.column(0)), first)
            progress()

    return blocks


def _finite(file: str, values: np.ndarray, first: int) -> Tensor:
    """The values as float32, or as float16 where they came so."""
    if values.dtype == np.float16 and bool(torch.from_numpy(values).isfinite().all()):
        return torch.from_numpy(values)
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(values, np.float32)
    check_finite(Matrix(file, narrow), first)
    return torch.from_numpy(narrow)
