"""Bytes of a streamed pass whose initial states are made of features: on the device that computes, and on the host."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from gpnn.engine import Plan, Streamed
from gpnn.engine.blockwise_backward import ends_independently
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


def source_bytes(
    plan: Plan, sizes: StateBytes, runner: Streamed, features: float, *, whole: bool = True
) -> SourceBytes:
    """What a pass takes; `features` are the bytes of all features as the runner stores them.

    `whole`: those on the host come to the device all at once; else a round begins from a state that is made of them.
    """
    state, rounds = plan.num_nodes * sizes.state, plan.num_rounds
    beside = plan.device.type == "cuda"
    on_host = features if runner.features == "cpu" and beside else 0.0
    fetched = on_host if whole else 0.0
    places = [_place(runner, number, rounds, beside) for number in range(rounds)]
    sizes_of = {"source": 0.0, "here": state, "rounded": state / 2, "host": 0.0, "disk": 0.0}
    stored = [sizes_of[place] for place in places]
    if rounds > 1 and ends_independently(plan):
        places[-1], stored[-1] = "here", state  # the working state itself, which the last round only reads
    hosted = places.count("host")
    if on_host and not whole:
        places[0] = "streamed"
    forward = max(fetched, _in_place(plan, state) if on_host else 0.0) + state * (1 + (hosted > 0))
    peak = max(forward, sum(stored) + (state if stored and places[-1] != "here" else 0.0))
    for number, phases in enumerate(plan.rounds):
        at_hand = places[number] in ("source", "here")
        copied = state if places[number] == "host" or not (at_hand or _in_copy(phases)) else 0.0
        ahead = fetched if number < 2 else state if places[number - 1] == "host" else 0.0
        backward = state + copied + _phases_bytes(plan, phases, sizes, state, ahead)
        peak = max(peak, sum(stored[: number + 1]) + backward)
    kept = sum(stored)
    return SourceBytes(kept, peak - kept, on_host + hosted * state)


def _place(runner: Streamed, number: int, rounds: int, beside: bool) -> str:
    """Where the state before a round is kept for the backward pass."""
    if number == 0:
        return "source"
    if rounds - number > runner.near:
        if runner.folder is not None:
            return "disk"
        if runner.device == "cpu" and beside:
            return "host"
    return "here" if runner.dtype is None else "rounded"


def _in_place(plan: Plan, state: float) -> float:
    """New rows that are held until all are computed."""
    return max((0.0 if phase.independent else state for phase in plan.distinct_phases()), default=0.0)


def _in_copy(phases: tuple[AnyPhase, ...]) -> bool:
    """Whether a round is done again in a copy of its states."""
    return len(phases) > 1 or any(not each.independent and each.repeat > 1 for each in phases)


def _phases_bytes(plan: Plan, phases: tuple[AnyPhase, ...], sizes: StateBytes, state: float, ahead: float) -> float:
    """What going back through a round takes beside the gradient of its states.

    `ahead` are bytes that are copied to the device while its first phase, the last to be gone through, is at work; the
    copy that later phases were done in is free by then.
    """
    work = [_joint(each, sizes) + piece_bytes(each, sizes, plan.device) for each in phases]
    copy = state if _in_copy(phases) else 0.0
    if len(phases) < 2:
        return ahead + copy + sum(work)
    first = state if not phases[0].independent and phases[0].repeat > 1 else 0.0
    return max(copy + max(work[1:]), ahead + first + work[0])


def _joint(phase: AnyPhase, sizes: StateBytes) -> float:
    """Gradients of rows that blocks read of each other."""
    if phase.num_held:
        return phase.num_halo * sizes.state
    return 0.0 if phase.independent else phase.num_rows * sizes.state


def stored_bytes(x: Tensor, state_width: int) -> float:
    """Bytes of dense features on the host, which are kept no wider than `state_width` bytes a number."""
    return float(x.numel() * min(x.element_size(), state_width))
