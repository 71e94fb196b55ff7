"""Plan: a schedule lowered to one device, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, overload

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gpnn.check import check_choice
from gpnn.engine.lowered_phase import BuiltPhase, LoweredPhase, LoweredRows
from gpnn.engine.rows import RowsByBlock, permute_rows
from gpnn.schedule import Schedule

AnyPhase: TypeAlias = LoweredPhase | LoweredRows | BuiltPhase


@dataclass(frozen=True, eq=False)
class Plan:
    """A :class:`~gpnn.schedule.Schedule` lowered to one device.

    States inside a plan stand in plan order: nodes grouped by subgraph, virtual nodes last. Everything that a user
    passes in or gets out is in the user's order; :meth:`to_plan_order` and :meth:`to_user_order` convert.

    Attributes:
        rounds: the lowered phases of each round; rounds that are alike share them.
        order: user's node in each plan row, `[N + V]`, or None where the two orders agree.
        device: where the plan lives.
        normalization: the rule that weighed the messages.
        num_nodes: number of the user's nodes N, virtual ones not counted.
        num_virtual: number of virtual nodes V.
        num_edge_types: number of edge types, those of virtual nodes included.
        source: what was lowered, or None where the plan was built and holds its arrays alone.
        edge_digest: digest of the edges of the user's graph, :attr:`gpnn.graph.EdgeDigest.edges`, which `fit` compares
            with its data's; None where no process has seen them all.
    """

    rounds: tuple[tuple[AnyPhase, ...], ...]
    order: Tensor | None
    device: torch.device
    normalization: str
    num_nodes: int
    num_virtual: int
    num_edge_types: int
    source: Schedule | None
    edge_digest: int | None

    def __repr__(self) -> str:
        what = f"{self.num_nodes} nodes, {self.num_rounds} rounds" if self.source is None else repr(self.source)
        return f"{type(self).__name__}({what}, device={self.device}, normalization={self.normalization!r})"

    @property
    def schedule(self) -> Schedule:
        """What was lowered.

        Raises:
            ValueError: where the plan was built, and does not hold it.
        """
        if self.source is None:
            raise ValueError("A plan that was built holds no schedule. Ask the plan that `lower` gave.")
        return self.source

    @property
    def num_rounds(self) -> int:
        return len(self.rounds)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its phases, in order of first use."""
        return tuple(dict.fromkeys(phase.kind for phase in self.distinct_phases()))

    def distinct_phases(self) -> tuple[AnyPhase, ...]:
        """Each lowered phase once, in order of first use."""
        return tuple(dict.fromkeys(phase for phases in self.rounds for phase in phases))

    def build(self, runner: str = "fused") -> Plan:
        """The plan with all that a runner takes built now, and nothing held besides: neither schedule nor graph.

        Running needs no edge list. Who keeps neither the graph nor the plan that `lower` gave frees 28 bytes per edge:
        16 of the graph, 8 of the schedule and 4 of edge ids. What is left takes 8, or 4 where the graph is undirected
        and has no weights. Such a plan runs all that does not need its :attr:`schedule` or for edge ids, as reports
        and convolutions with `edge_attr` do.

        Args:
            runner: "fused", whose plan the streamed runner takes too, as one block, or "streamed".

        Raises:
            ValueError: when the runner is unknown, or several processes share the plan.

        >>> import gpnn
        >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
        >>> gpnn.lower(ring, gpnn.schedule.synchronous(ring, rounds=2)).build()
        Plan(3 nodes, 2 rounds, device=cpu, normalization='phase')
        """
        check_choice("runner", runner, ("fused", "streamed"))
        if self.runners is not None:
            raise ValueError("A plan that several processes share cannot be built apart from its schedule.")
        built: dict[AnyPhase, BuiltPhase] = {phase: phase.build(runner) for phase in self.distinct_phases()}
        rounds = tuple(tuple(built[phase] for phase in phases) for phases in self.rounds)
        return replace(self, rounds=rounds, source=None)

    @property
    def runners(self) -> Mapping[str, Callable[..., list[Tensor]]] | None:
        """The runners that the plan was lowered for, by name; None: those of one process."""
        return None

    @property
    def nodes(self) -> Tensor | None:
        """The user's node in each row of features and results, `[N]`; None where row i is node i."""
        return None

    @property
    def num_messages(self) -> int:
        """Messages sent in all rounds, all phases, all repeats."""
        return sum(phase.repeat * phase.num_edges + phase.num_held for phases in self.rounds for phase in phases)

    @property
    def num_updates(self) -> int:
        """Node updates done in all rounds, all phases, all repeats."""
        return sum(phase.repeat * phase.num_rows for phases in self.rounds for phase in phases)

    @cached_property
    def _place(self) -> Tensor:
        """Plan row of each of the user's nodes, `[N + V]`."""
        assert self.order is not None
        place = torch.empty_like(self.order)
        place[self.order] = torch.arange(self.order.numel(), device=self.device)
        return place

    @overload
    def rows_of(self, nodes: Tensor) -> Tensor: ...
    @overload
    def rows_of(self, nodes: slice) -> Tensor | slice: ...
    def rows_of(self, nodes: Tensor | slice) -> Tensor | slice:
        """Plan rows of some of the user's nodes, `[n]`."""
        return nodes if self.order is None else self._place[nodes]

    def sorted_rows(self, nodes: Tensor) -> tuple[RowsByBlock, Tensor]:
        """Plan rows of distinct nodes, rising, `[n]`, and which of the nodes each is, `[n]`; made once per tensor."""
        if nodes not in self._sorted:
            placed, order = self.rows_of(nodes).sort()
            self._sorted[nodes] = RowsByBlock(placed), order
        return self._sorted[nodes]

    @cached_property
    def _sorted(self) -> MutableMapping[Tensor, tuple[RowsByBlock, Tensor]]:
        return WeakTensorKeyDictionary()

    def to_plan_order(self, state: Tensor) -> Tensor:
        """A state in plan order, `[N + V, d]`, from one in the user's order, `[N, d]`; virtual nodes start at zero."""
        if state.dim() != 2 or state.shape[0] != self.num_nodes:
            shape = list(state.shape)
            raise ValueError(f"`state` must have one row for each of the {self.num_nodes} nodes. Got shape {shape}.")
        if self.num_virtual:
            state = torch.cat([state, state.new_zeros(self.num_virtual, state.shape[1])])
        return state if self.order is None else permute_rows(state, self.order, self._place)

    def to_user_order(self, state: Tensor) -> Tensor:
        """A state in the user's order, `[N, d]`, from one in plan order."""
        if self.order is not None:
            state = permute_rows(state, self._place, self.order)
        return state[: self.num_nodes] if self.num_virtual else state
