"""Schedule: which messages are sent when, as data that one engine executes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from gpnn.check import check_count
from gpnn.graph import EdgeDigest, Graph
from gpnn.schedule.phase import Phase
from gpnn.schedule.phase_spec import AnyPhase


@dataclass(frozen=True, eq=False)
class Schedule:
    """Rounds of phases over one graph; it checks itself when it is made.

    Attributes:
        graph: the graph whose edge and node ids the phases name; it holds the virtual nodes too.
        rounds: the phases of each round, in order. Equal rounds share the same objects.
        num_virtual: how many of the graph's last nodes are virtual (added by the schedule).
        digest: of the graph's edges when the schedule was made; None over rows, which are not compared.
    """

    graph: Graph
    rounds: tuple[tuple[AnyPhase, ...], ...]
    num_virtual: int = 0
    digest: EdgeDigest | None = field(init=False)

    def __post_init__(self) -> None:
        check_count("num_virtual", self.num_virtual, at_least=0)
        listed = [phase for phase in self.distinct_phases() if isinstance(phase, Phase)]
        owner = torch.full((self.graph.num_nodes if listed else 0,), -1, dtype=torch.int64)
        for phase in listed:
            phase.check(self.graph, owner)
        object.__setattr__(self, "digest", self.graph.digest() if self.graph.rows is None else None)

    def __repr__(self) -> str:
        return (
            f"Schedule(rounds={self.num_rounds}, phases={self.num_phases}, "
            f"messages={self.num_messages}, updates={self.num_updates})"
        )

    def _repr_html_(self) -> str:
        from gpnn.schedule.draw import MAX_NODES, draw_schedule

        drawn = self.graph.rows is None and self.graph.num_nodes - self.num_virtual <= MAX_NODES
        return draw_schedule(self) if drawn else repr(self)

    def check_unchanged(self) -> None:
        """Raise ValueError where the graph's edges were changed in place since the schedule was made.

        A graph shares the memory of the arrays that it was made from: the user can write to them at any time.
        """
        if self.digest is not None and self.graph.digest() != self.digest:
            raise ValueError(
                "The edges of a graph must stay as they were when its schedule was made. They were changed in place: "
                "build schedule and plan again, or change a copy."
            )

    @property
    def num_rounds(self) -> int:
        return len(self.rounds)

    @property
    def num_phases(self) -> int:
        """Phases in all rounds."""
        return sum(map(len, self.rounds))

    @property
    def num_steps(self) -> int:
        """Steps in all rounds, one for each repeat of each phase: the depth of the computation."""
        return sum(phase.repeat for phases in self.rounds for phase in phases)

    @property
    def num_messages(self) -> int:
        """Messages sent in all rounds, all phases, all repeats."""
        return sum(phase.num_messages for phases in self.rounds for phase in phases)

    @property
    def num_updates(self) -> int:
        """Node updates done in all rounds, all phases, all repeats."""
        return sum(phase.num_updates for phases in self.rounds for phase in phases)

    def distinct_phases(self) -> Iterator[AnyPhase]:
        """Each phase object once, in order of first use."""
        seen: set[int] = set()
        for phases in self.rounds:
            for phase in phases:
                if id(phase) not in seen:
                    seen.add(id(phase))
                    yield phase
