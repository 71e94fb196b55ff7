"""Predictions as a table: the node, its class, how sure the model is, and the probability of each class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gpnn.train.atomic import replace_file

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".parquet", ".csv")


def predictions_table(
    probabilities: Tensor,
    *,
    nodes: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    labelled: Tensor | None = None,
) -> pyarrow.Table:
    """One row a node: `node`, `prediction`, `confidence`, `labelled`?, and `p_CLASS` for each class.

    The prediction is the most likely class; of several labels, which have a probability each, the most likely one.

    Args:
        probabilities: `[N, C]`.
        nodes: the user's id of each node; None numbers them.
        classes: the name of each class; None numbers them.
        labelled: whether each node had a training label, bool `[N]`.
    """
    import pyarrow

    scores = probabilities.detach().cpu().float()
    names = list(range(scores.shape[1])) if classes is None else list(classes)
    confidence, top = scores.max(1)
    columns: dict[str, Any] = {
        "node": np.arange(scores.shape[0]) if nodes is None else list(nodes),
        "prediction": pyarrow.array(names).take(pyarrow.array(top.numpy())),
        "confidence": confidence.numpy(),
    }
    if labelled is not None:
        columns["labelled"] = labelled.cpu().numpy()
    for number, name in enumerate(names):
        columns[f"p_{name}"] = scores[:, number].numpy()
    return pyarrow.table(columns)


def write_predictions(table: pyarrow.Table, path: Path) -> None:
    """Write the table atomically, as Parquet or CSV by the name's ending.

    Raises:
        ValueError: for another ending.
    """
    check_suffix(path)
    if path.suffix == ".csv":
        from pyarrow import csv

        replace_file(path, lambda partial: csv.write_csv(table, partial))
    else:
        from pyarrow import parquet

        replace_file(path, lambda partial: parquet.write_table(table, partial))


def check_suffix(path: Path) -> None:
    """Raise ValueError unless the name ends in a format that predictions are written in."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"A predictions file must end in {' or '.join(SUFFIXES)}. Got {path.name!r}.")
