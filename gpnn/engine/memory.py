"""Bytes that lowering and running a plan will take, from its counts alone, before anything of it is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from gpnn.engine.lowered_phase import LoweredPhase
from gpnn.engine.plan import Plan
from gpnn.engine.replay import SHARED_ROWS
from gpnn.schedule import Phase

# Bytes of an operator and its transpose an edge: two columns and edge id in 4 bytes each, and entry and weight likewise
_EDGE, _WEIGHT, _NODE = 12, 8, 28  # two pointers and a position in 8 bytes each, and a factor in 4
_LOWERING_EDGE = 90  # ids, weights and orders in 8 bytes while a phase is compressed


class StateBytes(NamedTuple):
    """The sizes of what a cell works on.

    Attributes:
        state: bytes of a node's working state.
        kept: bytes that autograd keeps of a row that a step updates, its new state included.
        boundary: bytes in which a state is stored between rounds.
        kernel: bytes that differentiating a step over a number of rows takes where one kernel does it; None: autograd
            does, which takes as much as it keeps.
    """

    state: float
    kept: float
    boundary: float
    kernel: Callable[[int], float] | None = None


def plan_bytes(plan: Plan) -> float:
    """Bytes of the arrays that the plan's phases come to hold."""
    weighted = plan.schedule.graph.edge_weight is not None or plan.normalization.startswith("symmetric")
    edge = _EDGE + (_WEIGHT if weighted else 0)
    return sum(edge * phase.edges.numel() + _NODE * phase.nodes.numel() for phase in plan.schedule.distinct_phases())


def lowering_bytes(plan: Plan) -> float:
    """Bytes that lowering the largest phase takes while it is at work."""
    return max((_LOWERING_EDGE * phase.edges.numel() for phase in plan.schedule.distinct_phases()), default=0)


def fused_bytes(plan: Plan, sizes: StateBytes) -> tuple[float, float]:
    """Bytes that the fused runner keeps for the backward pass, and those that this pass takes besides."""
    num_nodes = plan.num_nodes + plan.num_virtual
    kept = 0.0
    for phase in _phases(plan):
        rows = phase.nodes.numel()
        apart = 0 if rows == num_nodes else rows  # read apart; the state with the new rows takes the old one's place
        kept += phase.repeat * (rows * sizes.kept + apart * sizes.state)
    largest = max((phase.nodes.numel() for phase in _phases(plan)), default=0)
    inside = largest * sizes.kept if sizes.kernel is None else sizes.kernel(largest)
    return kept, 3 * num_nodes * sizes.state + inside  # gradients of states, and of one step's inside


def streamed_bytes(plan: Plan, sizes: StateBytes) -> tuple[float, float]:
    """The same for the streamed runner: states between rounds, and the sweep with its largest block."""
    num_nodes = plan.num_nodes + plan.num_virtual
    kept = num_nodes * ((plan.num_rounds - 1) * sizes.boundary + sizes.state)
    work = max((_block_bytes(lowered, sizes) for phases in plan.rounds for lowered in phases), default=0.0)
    return kept, 2 * num_nodes * sizes.state + work


def largest_piece_bytes(plan: Plan, sizes: StateBytes) -> float:
    """Bytes of the streamed runner's work that follow the size of the largest subgraph."""
    return max((_piece_bytes(lowered, sizes) for phases in plan.rounds for lowered in phases), default=0.0)


def _block_bytes(lowered: LoweredPhase, sizes: StateBytes) -> float:
    """Bytes that differentiating the largest piece of a phase takes, and its rows where pieces read each other's."""
    joint = 0 if lowered.phase.node_ptr is not None else lowered.phase.nodes.numel()
    return joint * sizes.state + _piece_bytes(lowered, sizes)


def _piece_bytes(lowered: LoweredPhase, sizes: StateBytes) -> float:
    """Bytes that differentiating the largest piece of a phase takes, or one a thread where pieces are small."""
    phase = lowered.phase
    apart = phase.node_ptr is not None
    rows = _largest(phase) if apart else min(phase.nodes.numel(), lowered.chunk_rows)
    at_once = (
        torch.get_num_threads() if rows <= SHARED_ROWS and torch.device(lowered.builder.device).type == "cpu" else 1
    )
    inside = 0.0 if sizes.kernel is None else sizes.kernel(rows)
    return at_once * (rows * ((phase.repeat if apart else 1) * sizes.kept + 4 * sizes.state) + inside)


def _largest(phase: Phase) -> int:
    return phase.nodes.numel() if phase.node_ptr is None else int(phase.node_ptr.diff().max())


def _phases(plan: Plan) -> list[Phase]:
    return [phase for phases in plan.schedule.rounds for phase in phases]
