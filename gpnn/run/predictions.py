"""Predictions: of every node, as a table that is written as Parquet and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gpnn.data.labels import are_numbers, labelled_nodes
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
    leads, and `p_CLASS` for each class comes last; of several labels, which have a probability each, the most likely
    one. Of numbers it is `prediction`, `low` and `high`. `label` is the true one, where it is known.

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


def known_labels(data: Data) -> np.ndarray:
    """Whether each node came with a label, bool `[N]`."""
    y = data.get("y")
    return np.zeros(data.num_nodes, bool) if y is None else labelled_nodes(y).numpy()


def true_labels(data: Data, classes: Sequence[Any] | None) -> pyarrow.Array | None:
    """The class or the number of each node, null where it is unknown, `[N]`; None of several labels per node.

    Args:
        data: with labels `y`.
        classes: the name of each class; None: they are numbered.
    """
    import pyarrow

    y = data.get("y")
    if y is None or y.dim() == 2:
        return None
    unknown = ~labelled_nodes(y).numpy()
    if are_numbers(y):
        return pyarrow.array(y.numpy(), mask=unknown)
    places = pyarrow.array(y.numpy(), mask=unknown)
    return places if classes is None else pyarrow.array(list(classes)).take(places)


def split_names(data: Data) -> np.ndarray:
    """The part of the split that each node is in: train, val, test, or "" for none, `[N]`."""
    names = np.full(data.num_nodes, "", object)
    for split in SPLITS:
        mask = data.get(f"{split}_mask")
        if mask is not None:
            names[mask.numpy()] = split
    return names


def write_predictions(table: pyarrow.Table, path: Path) -> None:
    """Write the table atomically, as Parquet or CSV by the name's ending.

    In CSV, text that a spreadsheet would run as a formula begins with an apostrophe.

    Raises:
        ValueError: for another ending.
    """
    check_suffix(path)
    if path.suffix == ".csv":
        from pyarrow import csv

        safe = _without_formulas(table)
        replace_file(path, lambda partial: csv.write_csv(safe, partial))
    else:
        from pyarrow import parquet

        replace_file(path, lambda partial: parquet.write_table(table, partial, write_page_checksum=True))


def _without_formulas(table: pyarrow.Table) -> pyarrow.Table:
    from pyarrow import compute, types

    for place, field in enumerate(table.schema):
        if types.is_string(field.type) or types.is_large_string(field.type):
            safe = compute.replace_substring_regex(table.column(place), FORMULA, r"'\1")
            table = table.set_column(place, field.name, safe)
    return table


def write_both(table: pyarrow.Table, path: Path) -> list[Path]:
    """Write a run's table as Parquet at `path` and, unless it is very large, as CSV beside it; the files written."""
    paths = [path] if table.num_rows * table.num_columns > CSV_CELLS else [path.with_suffix(".csv"), path]
    for each in paths:
        write_predictions(table, each)
    return paths


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
    from pyarrow import concat_tables, parquet

    if sum(parquet.read_metadata(part).num_rows for part in parts) <= SORTED_ROWS:
        write_both(order_rows(concat_tables([parquet.read_table(part) for part in parts])), path)
    else:
        replace_file(path, lambda partial: _follow(parts, partial))


def order_rows(table: pyarrow.Table) -> pyarrow.Table:
    """The rows in the order of nodes, by the column `row`, which is left out; a table without it is in order."""
    return table.sort_by("row").drop_columns("row") if "row" in table.column_names else table


def _follow(parts: Sequence[Path], path: Path) -> None:
    from pyarrow import parquet

    schema = parquet.read_schema(parts[0])
    kept = schema.remove(schema.get_field_index("row"))
    with parquet.ParquetWriter(path, kept, write_page_checksum=True) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part).drop_columns("row"))
