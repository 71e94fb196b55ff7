"""Schedule: who sends to whom, when, as data that one engine executes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpnn.graph import Graph
from gpnn.schedule.phase import Phase


@dataclass(frozen=True, eq=False)
class Schedule:
    """Rounds of phases over one graph; it checks itself when it is made.

    Attributes:
        graph: the graph whose edge and node ids the phases name; it holds the virtual nodes too.
        rounds: the phases of each round, in order. Rounds that are alike share the same objects.
        num_virtual: how many of the graph's last nodes are virtual (added by the schedule).
    """

    graph: Graph
    rounds: tuple[tuple[Phase, ...], ...]
    num_virtual: int = 0

    def __post_init__(self) -> None:
        for phase in self.distinct_phases():
            phase.check(self.graph)

    def __repr__(self) -> str:
        return (
            f"Schedule(rounds={self.num_rounds}, phases={sum(map(len, self.rounds))}, "
            f"messages={self.num_messages}, updates={self.num_updates})"
        )

    @property
    def num_rounds(self) -> int:
        return len(self.rounds)

    @property
    def num_messages(self) -> int:
        """Messages sent in all rounds, all phases, all repeats."""
        return sum(phase.num_messages for phases in self.rounds for phase in phases)

    @property
    def num_updates(self) -> int:
        """Node updates done in all rounds, all phases, all repeats."""
        return sum(phase.num_updates for phases in self.rounds for phase in phases)

    def distinct_phases(self) -> Iterator[Phase]:
        """Each phase object once, in order of first use."""
        seen: set[int] = set()
        for phases in self.rounds:
            for phase in phases:
                if id(phase) not in seen:
                    seen.add(id(phase))
                    yield phase
