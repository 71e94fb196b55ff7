"""Numbers that were predicted: beside the true ones, their errors and intervals, and as ranges that have a colour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from gpnn.data.labels import labelled_nodes
from gpnn.distributed import ProcessGroup
from gpnn.report.counts import SPLIT_NAMES
from gpnn.report.record import MUTED, Chart, Record, Section, Trace, bars, color, diagonal
from gpnn.text import percent
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

NUM_RANGES = 5
MAX_SHOWN = 1000  # nodes of a split
BINS = 30


class View(NamedTuple):
    """Labels and predictions as the pictures of a report take them.

    Attributes:
        kind: what a group of nodes is called: "class" or "range".
        names: of the groups.
        probabilities: of each group for each node, `[n, C]`.
        y: the group of each node, `[n]`, −1 where unknown; or labels, `[n, C]`.
        numbers: true number, prediction and the ends of its interval, `[n, 4]`, or None for classes.
    """

    kind: str
    names: list[str]
    probabilities: Tensor
    y: Tensor
    numbers: Tensor | None = None


def view_of(data: Data, predictions: Tensor, group: ProcessGroup) -> View:
    """How the nodes of this process are shown, by the task of the data; collective."""
    return _VIEWS[task_of(data).name](data, predictions, group)


def _as_classes(data: Data, predictions: Tensor, group: ProcessGroup) -> View:
    names = data.get("class_names")
    shown = range(predictions.shape[1]) if names is None else names
    return View("class", [str(name) for name in shown], predictions, data.y)


def _as_ranges(data: Data, predictions: Tensor, group: ProcessGroup) -> View:
    """Five ranges with as many known numbers each; fewer where numbers repeat."""
    known = data.y[labelled_nodes(data.y)]
    every = max(1, len(known) // MAX_SHOWN)
    pooled = torch.cat(group.all_gather(known[::every]))
    at = torch.linspace(0, 1, NUM_RANGES + 1, dtype=pooled.dtype)[1:-1]
    limits = torch.quantile(pooled, at).unique() if len(pooled) else pooled
    ends = [f"{limit:.3g}" for limit in limits.tolist()]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    names = [f"under {ends[0]}", *between, f"from {ends[-1]}"] if ends else ["all"]
    y = torch.where(labelled_nodes(data.y), torch.bucketize(data.y, limits, right=True), -1)
    predicted = torch.bucketize(predictions[:, 0].contiguous(), limits, right=True)
    numbers = torch.cat([data.y[:, None], predictions], 1)
    return View("range", names, one_hot(predicted, len(names)).double(), y, numbers)


_VIEWS: Mapping[str, Callable[[Data, Tensor, ProcessGroup], View]] = {
    "classification": _as_classes,
    "multi_label": _as_classes,
    "regression": _as_ranges,
}


def sample_numbers(view: View, splits: Mapping[str, Tensor], group: ProcessGroup) -> dict[str, Tensor] | None:
    """True numbers, predictions and intervals of some held-out nodes, `[m, 4]`, by the split in words; collective.

    They are those of test and validation, or of training where there are no others; None where nodes have classes.
    """
    if view.numbers is None:
        return None
    found = {}
    for name, words in SPLIT_NAMES.items():
        own = view.numbers[splits[name]]
        every = -(-max(1, len(own) * group.size) // MAX_SHOWN)
        found[words] = torch.cat(group.all_gather(own[::every]))
    held_out = {words: rows for words, rows in found.items() if len(rows) and words != SPLIT_NAMES["train"]}
    return held_out or {words: rows for words, rows in found.items() if len(rows)}


def numbers(record: Record) -> Section | None:
    """Predicted beside true numbers, and the errors of the held-out splits."""
    if not record.numbers:
        return None
    covered = record.metrics.get("test_coverage", record.metrics.get("val_coverage"))
    lead = "Each point is a node; on the diagonal prediction and truth are equal."
    if covered is not None:
        lead += f" The 90 % interval of a prediction holds the true number of {percent(covered)} of the nodes."
    axes = {"xaxis": {"title": {"text": "true number"}}, "yaxis": {"title": {"text": "prediction"}}}
    beside = {name: _scatter(rows.numpy()) for name, rows in record.numbers.items()}
    first = next(iter(record.numbers.values()))
    alt = f"Predicted against true numbers of {len(first):,} nodes."
    errors = {name: [_errors(rows.numpy())] for name, rows in record.numbers.items()}
    layout = {"xaxis": {"title": {"text": "prediction − true number"}}, "yaxis": {"title": {"text": "nodes"}}}
    parts = [
        Chart("numbers", "Predicted and true", alt, beside, axes | {"showlegend": False}),
        Chart("errors", "Errors", "Histogram of the errors.", errors, layout | {"showlegend": False}),
    ]
    return Section("numbers", "Numbers", lead, parts)


def _scatter(rows: np.ndarray) -> list[Trace]:
    true, predicted, low, high = rows.T
    ends = float(min(true.min(), predicted.min())), float(max(true.max(), predicted.max()))
    reach = {
        "type": "data",
        "symmetric": False,
        "array": _plain(high - predicted),
        "arrayminus": _plain(predicted - low),
    }
    points: dict[str, Any] = {"type": "scatter", "mode": "markers", "x": _plain(true), "y": _plain(predicted)}
    points |= {"marker": {"color": color(0), "size": 5, "opacity": 0.7}}
    points |= {"error_y": reach | {"thickness": 0.5, "width": 0, "color": MUTED}}
    points["hovertemplate"] = "true %{x:.4g}<br>predicted %{y:.4g}<extra></extra>"
    return [diagonal(*ends), points]


def _errors(rows: np.ndarray) -> Trace:
    counts, edges = np.histogram(rows[:, 1] - rows[:, 0], BINS)
    middle, width = (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0])
    return bars(_plain(middle), counts.tolist(), color(0), "%{y:,} nodes at %{x:.3g}", width=0.94 * width)


def _plain(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]
