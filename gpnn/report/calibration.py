"""Calibration: whether a model that is 80 % sure is right 80 % of the time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpnn.report.content import MUTED, Chart, Section, Trace, color, percent
from gpnn.report.record import Record

BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Nodes binned by how sure the model is of its answer.

    Attributes:
        bin: the bins that have nodes, `[B]`.
        confidence: mean confidence in each, `[B]`.
        accuracy: share of right answers in it, `[B]`.
        count: its nodes, `[B]`.
        error: expected calibration error, Σ_b n_b/n · |accuracy_b − confidence_b| (Guo et al. 2017).
    """

    bin: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor
    error: float


def reliability(confidence: Tensor, right: Tensor, bins: int = BINS) -> Reliability:
    """Bin answers by confidence, in bins of equal width.

    Args:
        confidence: probability of each answer, `[M]`.
        right: whether it was right, bool `[M]`.
        bins: how many bins there are from 0 to 1.

    >>> reliability(torch.tensor([0.95, 0.95, 0.65]), torch.tensor([True, True, False])).error
    0.25
    """
    place = (confidence.double() * bins).long().clamp(max=bins - 1)
    count = torch.bincount(place, minlength=bins)
    sure = torch.bincount(place, weights=confidence.double(), minlength=bins)
    good = torch.bincount(place, weights=right.double(), minlength=bins)
    kept = count.nonzero().flatten()
    error = float((good - sure).abs().sum() / max(1, confidence.numel()))
    return Reliability(kept, sure[kept] / count[kept], good[kept] / count[kept], count[kept], round(error, 9))


def calibration(record: Record) -> Section | None:
    """The reliability diagram and the expected calibration error of the held-out splits."""
    found = {name: reliability(*_answers(record, nodes)) for name, nodes in record.held_out().items()}
    if not found:
        return None
    errors = ", ".join(f"{percent(each.error)} on {name}" for name, each in found.items())
    lead = (
        f"Expected calibration error: {errors}. A model is calibrated when its points lie on the diagonal: "
        "above it, it is right more often than it says; below, less often."
    )
    if record.multi_label:
        lead += " Every label of a node is one answer, yes or no."
    diagram = {name: [_diagonal(), _points(each)] for name, each in found.items()}
    layout = {
        "xaxis": {"title": {"text": "confidence"}, "tickformat": ".0%", "range": [0, 1.02]},
        "yaxis": {"title": {"text": "share that is right"}, "tickformat": ".0%", "range": [0, 1.02]},
        "showlegend": False,
    }
    alt = f"Reliability diagram. Expected calibration error {errors}."
    how_sure = {name: [_bars(each)] for name, each in found.items()}
    axes = {
        "xaxis": {"title": {"text": "confidence"}, "tickformat": ".0%", "range": [0, 1.02]},
        "yaxis": {"title": {"text": "answers"}},
    }
    parts = [
        Chart("reliability", "Reliability", alt, diagram, layout),
        Chart("confidence", "How sure the model is", "Histogram of confidence.", how_sure, axes),
    ]
    return Section("calibration", "Calibration", lead, parts)


def _answers(record: Record, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence and rightness of each answer, flat."""
    likely, target = record.probabilities[nodes].nan_to_num(0.0), record.data.y[nodes]
    if record.multi_label:
        yes = likely > 0.5
        return torch.where(yes, likely, 1 - likely).flatten(), (yes == (target > 0.5)).flatten()
    confidence, answer = likely.max(1)
    return confidence, answer == target


def _diagonal() -> Trace:
    line = {"color": MUTED, "dash": "dot", "width": 1.5}
    return {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "line": line, "hoverinfo": "skip"}


def _points(found: Reliability) -> Trace:
    count = found.count.double()
    marker = {
        "size": (8 + 16 * (count / count.max()).sqrt()).round(decimals=1).tolist(),
        "color": color(0),
        "opacity": 0.85,
    }
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": found.confidence.numpy().round(4).tolist(),
        "y": found.accuracy.numpy().round(4).tolist(),
        "text": [f"{n:,} answers" for n in found.count.tolist()],
        "marker": marker,
        "line": {"color": color(0), "width": 1.5},
        "hovertemplate": "sure %{x:.1%}<br>right %{y:.1%}<br>%{text}<extra></extra>",
    }


def _bars(found: Reliability) -> Trace:
    return {
        "type": "bar",
        "x": ((found.bin + 0.5) / BINS).numpy().round(3).tolist(),
        "y": found.count.tolist(),
        "width": 0.94 / BINS,
        "marker": {"color": color(0)},
        "hovertemplate": "%{y:,} answers<extra></extra>",
        "showlegend": False,
    }
