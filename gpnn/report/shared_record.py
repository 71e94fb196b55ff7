"""SharedRecord: what the page of a run of several processes is made of, gathered from all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from gpnn.partition import Quality
from gpnn.report.answers import Answers
from gpnn.report.node_facts import Sample
from gpnn.report.phase_counts import PhaseCounts
from gpnn.report.quotient import Quotient
from gpnn.report.record import Record
from gpnn.train.notes import Note

if TYPE_CHECKING:
    from gpnn.report.cost import Cost


@dataclass(frozen=True, eq=False)
class SharedRecord:
    """One finished run whose graph nobody holds whole: sums over all processes, and a sample of the nodes.

    Attributes:
        name, run, metrics, history, config, environment, seed: as in :class:`~gpnn.report.Record`.
        classes: the name of each class.
        multi_label: whether a node has several labels.
        answers: how the held-out nodes were answered.
        quality: what the partition costs.
        quotient: the graph by its subgraphs.
        sample: some nodes and their states.
        phases: what the schedule sends and updates.
        cost: time and memory of one pass in the first process.
        shares: what each process holds, by the name of the figure.
        notes: as in :class:`~gpnn.report.Record`.
    """

    name: str
    run: str
    metrics: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    config: str
    environment: Mapping[str, Any]
    seed: int
    classes: Sequence[str]
    multi_label: bool
    answers: Answers | None
    quality: Quality | None
    quotient: Quotient | None
    sample: Sample | None
    phases: PhaseCounts
    cost: Cost | None
    shares: Sequence[Mapping[str, int]]
    notes: Sequence[Note] = ()


AnyRecord: TypeAlias = Record | SharedRecord
