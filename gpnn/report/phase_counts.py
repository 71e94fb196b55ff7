"""PhaseCounts: what each phase of a schedule sends and updates, in counts that add up over processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from gpnn.report.answers import Total
from gpnn.schedule import Phase, Schedule


class PhaseRow(NamedTuple):
    """One phase: its kind, how often it steps, its blocks, messages and updates."""

    kind: str
    repeat: int
    blocks: int
    messages: int
    updates: int


@dataclass(frozen=True)
class PhaseCounts:
    """A schedule in figures.

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


def count_phases(schedule: Schedule, total: Total = lambda counts: counts) -> PhaseCounts:
    """The phases of a schedule, of which every process may have its share.

    Args:
        schedule: this process's; all have the same phases.
        total: sums counts over all processes; as it stands: this one has the whole schedule.
    """
    alike = all(each is schedule.rounds[0] for each in schedule.rounds)
    shown = schedule.rounds[:1] if alike else schedule.rounds
    phases: list[Phase] = [phase for each in shown for phase in each]
    blocks = [phase.num_blocks if phase.edge_ptr is not None else 0 for phase in phases]  # those that are one add none
    own = [[number, phase.num_messages, phase.num_updates] for number, phase in zip(blocks, phases)]
    counts = total(torch.tensor(own, dtype=torch.int64).view(-1, 3)).tolist()
    rows = tuple(
        PhaseRow(phase.kind, phase.repeat, max(1, number), messages, updates)
        for phase, (number, messages, updates) in zip(phases, counts)
    )
    return PhaseCounts(schedule.num_rounds, alike, rows)
