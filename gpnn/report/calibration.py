"""Calibration: whether a model that is 80 % sure is right 80 % of the time."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gpnn.report.answers import BINS
from gpnn.report.content import MUTED, Chart, Section, Trace, color, percent
from gpnn.report.shared_record import AnyRecord


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


def reliability(bins: Tensor) -> Reliability:
    """What the bins of :func:`gpnn.report.answers.bin_answers` say.

    >>> import torch
    >>> from gpnn.report.answers import bin_answers
    >>> reliability(bin_answers(torch.tensor([0.95, 0.95, 0.65]), torch.tensor([True, True, False]))).error
    0.25
    """
    count, sure, good = bins.T
    kept = count.nonzero().flatten()
    error = float((good - sure).abs().sum() / max(1.0, float(count.sum())))
    return Reliability(kept, (sure / count)[kept], (good / count)[kept], count[kept].long(), round(error, 9))


def calibration(record: AnyRecord) -> Section | None:
    """The reliability diagram and the expected calibration error of the held-out splits."""
    if record.answers is None:
        return None
    found = {name: reliability(bins) for name, bins in record.answers.bins.items()}
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
