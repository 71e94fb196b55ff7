"""Predictions: of every node, as a table that is written as Parquet and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gpnn.data.labels import are_numbers, join_labels, labelled_nodes
from gpnn.storage.atomic import replace_file

if TYPE_CHECKING:
    import pyarrow
    from torch_geometric.data import Data


SUFFIXES = (".parquet", ".csv")
SPLITS = ("train", "val", "test")
FORMULA = r"\A([=+@\t\r-])"  # what a cell that a spreadsheet runs begins with
CSV_CELLS = 1 << 26  # a run's table with more is written as Parquet alone


def predictions_table(
    columns: tuple[Mapping[str, Any], Mapping[str, Any]],
    *,
    nodes: Sequence[Any] | np.ndarray | None = None,
    labelled: Tensor | np.ndarray | None = None,
    label: pyarrow.Array | None = None,
    also: dict[str, np.ndarray] | None = None,
) -> pyarrow.Table:
    """One row per node: `node`, the prediction, `labelled`, others, and what the task has to add.

    Of classes the prediction is `prediction`, `confidence`, `second` and `margin`, the probability by which the first
    leads, and `p_CLASS` for each class comes last; of several labels all that are more likely than not, and how sure
    the least sure of them is. Of numbers it is `prediction`, `low` and `high`. `label` is the true one, where known.

    Args:
        columns: what :meth:`gpnn.train.task.Task.columns` gives: the prediction's columns, and those that come last.
        nodes: the user's id of each node; None numbers them.
        labelled: whether each node came with a label, bool `[N]`.
        label: the true label of each node, None where it is unknown, `[N]`.
        also: further columns by name, each `[N]`.

    >>> table = predictions_table(({"prediction": ["red"], "confidence": [0.75]}, {"p_red": [0.75]}), nodes=["anna"])
    >>> table.to_pylist()
    [{'node': 'anna', 'prediction': 'red', 'confidence': 0.75, 'p_red': 0.75}]
    """
    import pyarrow

    first, last = columns
    number = len(next(iter(first.values())))
    all_columns = {"node": np.arange(number) if nodes is None else pyarrow.array(nodes), **first}
    if labelled is not None:
        all_columns["labelled"] = np.asarray(labelled)
    if label is not None:
        all_columns["label"] = label
    return pyarrow.table(all_columns | (also or {}) | dict(last))


def data_rows(data: Data, rows: slice) -> Data:
    """The labels, masks and names of some nodes."""
    from torch_geometric.data import Data

    chosen = Data(num_nodes=rows.stop - rows.start)
    for name in ("y", "node_name", "node_type", *(f"{split}_mask" for split in SPLITS)):
        if data.get(name) is not None:
            chosen[name] = data[name][rows]
    if data.get("node_type_names") is not None:
        chosen.node_type_names = data.node_type_names
    return chosen


def node_types(data: Data) -> dict[str, np.ndarray]:
    """The column `node_type` of a graph that was a `HeteroData`, where rows of its node types follow each other."""
    names = data.get("node_type_names")
    return {} if names is None else {"node_type": np.array(names, object)[data.node_type.numpy()]}


def known_labels(data: Data) -> np.ndarray:
    """Whether each node came with a label, bool `[N]`."""
    y = data.get("y")
    return np.zeros(data.num_nodes, bool) if y is None else labelled_nodes(y).numpy()


def true_labels(data: Data, classes: Sequence[Any] | None) -> pyarrow.Array | None:
    """The class, the number or the labels of each node, null where they are unknown, `[N]`; None where none has one.

    Args:
        data: with labels `y`.
        classes: the name of each class; None: they are numbered.
    """
    import pyarrow

    y = data.get("y")
    if y is None:
        return None
    unknown = ~labelled_nodes(y).numpy()
    if y.dim() == 2:
        from pyarrow import compute

        return compute.if_else(unknown, None, join_labels(y > 0, classes or range(y.shape[1])))
    if are_numbers(y):
        return pyarrow.array(y.numpy(), mask=unknown)
    places = pyarrow.array(y.numpy(), mask=unknown)
    return places if classes is None else pyarrow.array(list(classes)).take(places)


def split_names(data: Data) -> np.ndarray:
    """The part of the split that each node is in: train, val, test, or "" for none, `[N]`."""
    places = np.zeros(data.num_nodes, np.int8)
    for number, split in enumerate(SPLITS):
        mask = data.get(f"{split}_mask")
        if mask is not None:
            places[mask.numpy()] = number + 1
    return np.array(["", *SPLITS], object)[places]


def write_predictions(tables: Iterable[pyarrow.Table], path: Path) -> None:
    """Write tables one after the other to one file, atomically, as Parquet or CSV by the name's ending.

    In CSV, text that a spreadsheet would run as a formula begins with an apostrophe.

    Args:
        tables: at least one, all with the same columns; none is held longer than it takes to write it.
        path: the file.

    Raises:
        ValueError: for another ending.
    """
    check_suffix(path)
    rest = iter(tables)
    first = next(rest)
    replace_file(path, lambda partial: _write_all(first, rest, partial, path.suffix))


def _write_all(first: pyarrow.Table, rest: Iterator[pyarrow.Table], path: Path, suffix: str) -> None:
    from pyarrow import csv, parquet

    if suffix == ".csv":
        with csv.CSVWriter(path, first.schema) as lines:
            for table in chain([first], rest):
                lines.write_table(_without_formulas(table))
    else:
        with parquet.ParquetWriter(path, first.schema, write_page_checksum=True) as groups:
            for table in chain([first], rest):
                groups.write_table(table)


def _without_formulas(table: pyarrow.Table) -> pyarrow.Table:
    from pyarrow import compute, types

    for place, field in enumerate(table.schema):
        if types.is_string(field.type) or types.is_large_string(field.type):
            safe = compute.replace_substring_regex(table.column(place), FORMULA, r"'\1")
            table = table.set_column(place, field.name, safe)
    return table


def write_both(tables: Iterable[pyarrow.Table], path: Path, num_rows: int) -> None:
    """Write a run's tables as Parquet at `path` and, unless they are very large, as CSV beside it."""
    rest = iter(tables)
    first = next(rest)
    if num_rows * first.num_columns > CSV_CELLS:
        write_predictions(chain([first], rest), path)
        return
    whole = concat([first, *rest])
    for each in (path.with_suffix(".csv"), path):
        write_predictions([whole], each)


def concat(tables: Iterable[pyarrow.Table]) -> pyarrow.Table:
    """The tables as one."""
    from pyarrow import concat_tables

    return concat_tables(tables).combine_chunks()


def check_suffix(path: Path) -> None:
    """Raise ValueError unless the name ends in a format that predictions are written in."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"A predictions file must end in {' or '.join(SUFFIXES)}. Got {path.name!r}.")


SORTED_ROWS = 10_000_000  # a larger table is never held at once


def merge_predictions(parts: Sequence[Path], path: Path) -> None:
    """Write the tables of several processes as a run's.

    Above `SORTED_ROWS` rows the tables follow each other as they are, as Parquet alone, and only one is held at a time.

    Args:
        parts: Parquet files of :func:`gpnn.run.predictions.predictions_table` with a column `row`, the number of each
            node, which orders the rows and is left out.
        path: the Parquet file to write.
    """
    from pyarrow import parquet

    num_rows = sum(parquet.read_metadata(part).num_rows for part in parts)
    tables = (parquet.read_table(part) for part in parts)
    if num_rows <= SORTED_ROWS:
        write_both([order_rows(concat(tables))], path, num_rows)
    else:
        write_predictions((table.drop_columns("row") for table in tables), path)


def order_rows(table: pyarrow.Table) -> pyarrow.Table:
    """The rows in the order of nodes, by the column `row`, which is left out."""
    return table.sort_by("row").drop_columns("row")
