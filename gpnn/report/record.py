"""Record: all that the page of one run is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.labels import labelled_nodes
from gpnn.graph import as_graph
from gpnn.partition import Partition, Quality
from gpnn.report.answers import SPLIT_NAMES, Answers, count_answers
from gpnn.report.node_facts import NodeFacts, Sample
from gpnn.report.phase_counts import PhaseCounts, count_phases
from gpnn.report.quotient import Quotient, draw_together
from gpnn.schedule import Schedule
from gpnn.train.notes import Note

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.report.cost import Cost

MAX_SAMPLE = 1500


@dataclass(frozen=True, eq=False)
class Record:
    """One finished run.

    Attributes:
        name: the dataset's name.
        run: the run folder's name.
        metrics: its final figures.
        history: a record an epoch.
        config: its configuration as TOML.
        environment: where it took place.
        data: features, labels and masks of N nodes.
        probabilities: of each class, `[N, C]`.
        schedule: which messages travelled when.
        partition: the subgraphs, or None.
        states: what the graph made of the nodes, `[N, d]`, or None where they were not computed.
        states_name: what these are.
        cost: time and memory of one pass, or None where it was not measured.
        notes: what was decided on the user's behalf, and what is not used.
        seed: of samples and layouts.
    """

    name: str
    run: str
    metrics: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    config: str
    environment: Mapping[str, Any]
    data: Data
    probabilities: Tensor
    schedule: Schedule
    partition: Partition | None = None
    states: Tensor | None = None
    states_name: str = "final states"
    cost: Cost | None = None
    notes: Sequence[Note] = ()
    seed: int = 0

    @property
    def multi_label(self) -> bool:
        return self.data.y.dim() == 2

    @property
    def classes(self) -> list[str]:
        """The name of each class, the user's own where there are any."""
        names = self.data.get("class_names")
        return [str(name) for name in (range(self.probabilities.shape[1]) if names is None else names)]

    @property
    def prediction(self) -> Tensor:
        """The most likely class of each node, `[N]`."""
        return self.probabilities.argmax(1)

    @cached_property
    def answers(self) -> Answers | None:
        """How the held-out nodes were answered."""
        return count_answers(self.probabilities, self.data.y, {name: self.split(name) for name in SPLIT_NAMES})

    @cached_property
    def quality(self) -> Quality | None:
        """What the partition costs."""
        return None if self.partition is None else self.partition.quality(self.data)

    @cached_property
    def quotient(self) -> Quotient | None:
        """The graph by its subgraphs."""
        if self.partition is None:
            return None
        labels, number = self.partition.labels, self.partition.num_parts
        return draw_together(as_graph(self.data), labels, self.probabilities, number)

    @cached_property
    def sample(self) -> Sample | None:
        """Some nodes and their states."""
        if self.states is None:
            return None
        nodes = draw_sample(self.states.shape[0], self.seed)
        return Sample(self.about(nodes), self.states[nodes], self.states_name, self.states.shape[0])

    @cached_property
    def phases(self) -> PhaseCounts:
        """What the schedule sends and updates."""
        return count_phases(self.schedule)

    def about(self, nodes: Tensor) -> NodeFacts:
        """What is known of these nodes."""
        names = self.data.get("node_name")
        part = self.partition
        return NodeFacts(
            [str(node if names is None else names[node]) for node in nodes.tolist()],
            self.classes,
            self.probabilities[nodes],
            self.data.y[nodes],
            split_numbers(self.data)[nodes],
            None if part is None else part.labels[nodes],
            0 if part is None else part.num_parts,
        )

    def split(self, name: str) -> Tensor:
        """The labelled nodes of "train", "val" or "test", maybe none."""
        return split_nodes(self.data, name)


def split_nodes(data: Data, name: str) -> Tensor:
    """The labelled nodes of "train", "val" or "test", maybe none."""
    known, mask = labelled_nodes(data.y), data.get(f"{name}_mask")
    return (known & mask if mask is not None else known & False).nonzero().flatten()


def split_numbers(data: Data) -> Tensor:
    """The split of each node as a position in SPLIT_NAMES, −1 for none, `[N]`."""
    splits = torch.full((data.num_nodes,), -1)
    for number, name in enumerate(SPLIT_NAMES):
        splits[split_nodes(data, name)] = number
    return splits


def draw_sample(num_nodes: int, seed: int) -> Tensor:
    """At most 1,500 nodes, drawn without replacement, in ascending order."""
    if num_nodes <= MAX_SAMPLE:
        return torch.arange(num_nodes)
    drawn = np.random.default_rng(seed).choice(num_nodes, MAX_SAMPLE, replace=False)
    return torch.from_numpy(np.sort(drawn))
