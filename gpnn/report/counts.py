"""Counts that add up over processes: predictions by class and confidence, the quotient graph, phases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.graph import Graph
from gpnn.schedule import Schedule
from gpnn.train.loss import bin_confidence, confidence

MAX_CLASSES = 60
MAX_PARTS = 400
CHUNK = 1 << 22  # edges at a time: the graph may be large
SPLIT_NAMES = {"test": "test", "val": "validation", "train": "training"}

Reduce = Callable[[Tensor], Tensor]  # sums counts over a process group


def _same(counts: Tensor) -> Tensor:
    """The sum over a group of size 1."""
    return counts


@dataclass(frozen=True, eq=False)
class PredictionCounts:
    """Predictions for the labelled nodes of each held-out split.

    Attributes:
        shown: the classes that are shown, the largest ones, `[k]`.
        classes: by the split's name in words, how many nodes of each shown class (row) were predicted as each of them
            or as another (last column), `[k, k + 1]`; with several labels per node, how many nodes have each shown
            label, were predicted to have it, and both, `[k, 3]`.
        bins: likewise, the predictions in each bin of confidence, their summed confidence, and the right ones,
            float64, `[10, 3]`.
    """

    shown: Tensor
    classes: Mapping[str, Tensor]
    bins: Mapping[str, Tensor]


def count_predictions(
    probabilities: Tensor, y: Tensor, splits: Mapping[str, Tensor], all_reduce: Reduce = _same
) -> PredictionCounts | None:
    """Count test and validation nodes, or training nodes where there are no others; None where none is labelled.

    Args:
        probabilities: of each class, `[n, C]`.
        y: classes, `[n]`, or labels, `[n, C]`.
        splits: the labelled nodes of "test", "val" and "train" among these, some maybe empty.
        all_reduce: sums counts over all processes.
    """
    sizes = {name: int(all_reduce(torch.tensor(splits[name].numel()))) for name in SPLIT_NAMES}
    held_out = [name for name in ("test", "val") if sizes[name]] or [name for name in sizes if sizes[name]]
    if not held_out:
        return None
    shown = largest_classes(all_reduce(_class_sizes(y[splits[held_out[0]]], probabilities.shape[1])))
    classes, bins = {}, {}
    for name in held_out:
        predicted, target = probabilities[splits[name]].nan_to_num(0.0), y[splits[name]]
        classes[SPLIT_NAMES[name]] = all_reduce(_by_class(predicted, target, shown))
        bins[SPLIT_NAMES[name]] = all_reduce(bin_confidence(*confidence(predicted, target)))
    return PredictionCounts(shown, classes, bins)


def confusion(target: Tensor, prediction: Tensor, shown: Tensor, num_classes: int) -> Tensor:
    """How many nodes of each shown class (row) were predicted as each of them or as another (last), `[k, k + 1]`.

    >>> confusion(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]), torch.tensor([0, 2]), 3).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    size = len(shown)
    place = torch.full((num_classes,), size)
    place[shown] = torch.arange(size)
    pairs = place[target] * (size + 1) + place[prediction]
    return torch.bincount(pairs, minlength=(size + 1) ** 2).view(size + 1, size + 1)[:size]


def largest_classes(counts: Tensor) -> Tensor:
    """The classes with the most nodes, at most sixty, in their own order."""
    return counts.argsort(descending=True, stable=True)[:MAX_CLASSES].sort().values


def _class_sizes(target: Tensor, num_classes: int) -> Tensor:
    return (target > 0.5).sum(0) if target.dim() == 2 else torch.bincount(target, minlength=num_classes)


def _by_class(predicted: Tensor, target: Tensor, shown: Tensor) -> Tensor:
    if target.dim() == 1:
        return confusion(target, predicted.argmax(1), shown, predicted.shape[1])
    true, given = target[:, shown] > 0.5, predicted[:, shown] > 0.5
    return torch.stack([true.sum(0), given.sum(0), (true & given).sum(0)], 1)


@dataclass(frozen=True, eq=False)
class Quotient:
    """The largest subgraphs of a graph, and the edges between them.

    Attributes:
        num_nodes: nodes of the whole graph.
        num_parts: its subgraphs.
        shown: which subgraphs these are, rising, `[k]`.
        sizes: nodes of each, `[k]`.
        between: edges from each to each, `[k, k]`.
        predicted: nodes of each that were predicted as each class, `[k, C]`.
    """

    num_nodes: int
    num_parts: int
    shown: np.ndarray
    sizes: np.ndarray
    between: np.ndarray
    predicted: np.ndarray


def count_quotient(
    graph: Graph, parts: Tensor, probabilities: Tensor, num_parts: int, all_reduce: Reduce = _same
) -> Quotient:
    """The quotient graph of at most 400 subgraphs, the largest.

    Args:
        graph: rows that this process owns, then rows that send to them; every edge is in one process.
        parts: the subgraph of each row, `[n + h]`.
        probabilities: of each class for each own row, `[n, C]`.
        num_parts: number of subgraphs of the whole graph.
        all_reduce: sums counts over all processes.
    """
    own, num_classes = parts[: len(probabilities)], probabilities.shape[1]
    sizes = all_reduce(torch.bincount(own, minlength=num_parts))
    shown = sizes.argsort(descending=True, stable=True)[:MAX_PARTS].sort().values
    size = len(shown)
    place = torch.full((num_parts,), size)  # the others share one place more
    place[shown] = torch.arange(size)
    between = all_reduce(count_between(graph, place[parts], size + 1))
    pairs = place[own] * num_classes + probabilities.argmax(1)
    predicted = all_reduce(torch.bincount(pairs, minlength=(size + 1) * num_classes)).view(size + 1, num_classes)
    arrays = (shown, sizes[shown], between[:size, :size], predicted[:size])
    return Quotient(int(sizes.sum()), num_parts, *(array.numpy() for array in arrays))


def count_between(graph: Graph, parts: Tensor, num_parts: int) -> Tensor:
    """How many edges run from each subgraph to each other, `[K, K]`, given the subgraph of each node.

    >>> count_between(Graph([0, 1], [1, 2], num_nodes=3), torch.tensor([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 0]]
    """
    counts = torch.zeros(num_parts**2, dtype=torch.int64)
    for src, dst in graph.edge_chunks(CHUNK):
        counts += torch.bincount(parts[src] * num_parts + parts[dst], minlength=num_parts**2)
    return counts.view(num_parts, num_parts)


class PhaseRow(NamedTuple):
    """One phase: its kind, how often it steps, its blocks, messages and updates."""

    kind: str
    repeat: int
    blocks: int
    messages: int
    updates: int


@dataclass(frozen=True)
class PhaseCounts:
    """The size of a schedule.

    Attributes:
        num_rounds: number of rounds.
        alike: whether all rounds are the same.
        rows: the phases of one round where they are alike, else of all.
    """

    num_rounds: int
    alike: bool
    rows: tuple[PhaseRow, ...]

    @property
    def num_messages(self) -> int:
        return sum(row.messages for row in self.rows) * (self.num_rounds if self.alike else 1)

    @property
    def num_updates(self) -> int:
        return sum(row.updates for row in self.rows) * (self.num_rounds if self.alike else 1)


def count_phases(schedule: Schedule, all_reduce: Reduce = _same) -> PhaseCounts:
    """The phases of a schedule that is whole or divided among processes.

    Args:
        schedule: this process's; all have the same phases.
        all_reduce: sums counts over all processes.
    """
    alike = all(each is schedule.rounds[0] for each in schedule.rounds)
    shown = schedule.rounds[:1] if alike else schedule.rounds
    phases = [phase for each in shown for phase in each]
    blocks = [phase.num_blocks if phase.has_blocks else 0 for phase in phases]  # those that are one add none
    own = [[number, phase.num_messages, phase.num_updates] for number, phase in zip(blocks, phases)]
    counts = all_reduce(torch.tensor(own, dtype=torch.int64).view(-1, 3)).tolist()
    rows = tuple(
        PhaseRow(phase.kind, phase.repeat, max(1, number), messages, updates)
        for phase, (number, messages, updates) in zip(phases, counts)
    )
    return PhaseCounts(schedule.num_rounds, alike, rows)
