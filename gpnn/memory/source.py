"""Bytes of a streamed pass whose initial states are made of features: on the device that computes, and on the host."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from gpnn.engine import Plan, Streamed
from gpnn.engine.plan import AnyPhase
from gpnn.memory.runner import StateBytes, piece_bytes


class SourceBytes(NamedTuple):
    """Bytes of one pass.

    Attributes:
        kept: states between forward and backward, on the device.
        work: what the larger of the two passes takes besides.
        host: what lies in host memory beside a GPU: features, and states between rounds.
    """

    kept: float
    work: float
    host: float


def source_bytes(plan: Plan, sizes: StateBytes, runner: Streamed, features: float) -> SourceBytes:
    """What a pass takes; `features` are the bytes of all features as the runner stores them."""
    state, later = plan.num_nodes * sizes.state, max(0, plan.num_rounds - 1)
    beside, on_host = plan.device.type == "cuda", runner.device == "cpu" and runner.folder is None
    hosted = max(0, later - runner.near) if on_host else 0
    near = 0 if runner.folder is not None else later - hosted
    kept = near * plan.num_nodes * sizes.boundary + (0 if beside else hosted * state)
    fetched = features if runner.features == "cpu" and beside else 0.0
    forward = state * (1 + (hosted > 0)) + max(fetched, _in_place(plan, state) if fetched else 0.0)
    ahead = max(fetched, state if hosted else 0.0)
    backward = state + max((_phases_bytes(plan, phases, sizes, state) for phases in set(plan.rounds)), default=0.0)
    here = state if hosted and beside else 0.0  # the state that a round goes back from
    return SourceBytes(kept, max(forward, backward + max(ahead, here) + min(ahead, here)), fetched + hosted * state)


def _in_place(plan: Plan, state: float) -> float:
    """New rows that are held until all are computed."""
    return max((0.0 if phase.independent else state for phase in plan.distinct_phases()), default=0.0)


def _phases_bytes(plan: Plan, phases: tuple[AnyPhase, ...], sizes: StateBytes, state: float) -> float:
    """What going back through a round takes beside the gradient of its states."""
    copy = state if len(phases) > 1 or any(not each.independent and each.repeat > 1 for each in phases) else 0.0
    return copy + max((_joint(each, sizes) + piece_bytes(each, sizes, plan.device) for each in phases), default=0.0)


def _joint(phase: AnyPhase, sizes: StateBytes) -> float:
    """Gradients of rows that blocks read of each other."""
    if phase.num_held:
        return phase.num_halo * sizes.state
    return 0.0 if phase.independent else phase.num_rows * sizes.state


def stored_bytes(x: Tensor, state_width: int) -> float:
    """Bytes of dense features on the host, which are kept no wider than `state_width` bytes a number."""
    return float(x.numel() * min(x.element_size(), state_width))
