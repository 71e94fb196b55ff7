"""propagate: run a cell over a plan; the fused runner, whose phases are one kernel each, gradients by autograd."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.engine.plan import Plan
from gpnn.engine.recompute import Recomputation, own_rows, round_steps
from gpnn.engine.rows import update_rows, writes_all
from gpnn.engine.step import CellLike
from gpnn.engine.streamed import Streamed
from gpnn.pages import move_to_large

Runner = Callable[..., list[Tensor]]
DTYPES = (torch.float32, torch.float64, torch.bfloat16)  # that every kernel has; float16 overflows in sums of states


def recomputes(runner: str | Runner | None) -> bool:
    """Whether a runner keeps little and computes the rest again in the backward pass: what is around it should too.

    >>> recomputes("streamed"), recomputes(Streamed(dtype=None)), recomputes("fused")
    (True, True, False)
    """
    return runner == "streamed" or bool(getattr(runner, "recomputes", False))


def streamed_runner(runner: str | Runner | None) -> Streamed | None:
    """The streamed runner that is meant, with its settings; None where it is another."""
    if runner == "streamed":
        return Streamed()
    return runner if isinstance(runner, Streamed) else None


def propagate(
    cell: CellLike,
    plan: Plan,
    state: Tensor,
    *,
    initial: Tensor | None = None,
    runner: str | Runner | None = None,
    collect: bool = False,
) -> Tensor | list[Tensor]:
    """The states after all rounds of `plan`, `[N, d]`, in the user's order.

    Args:
        cell: how nodes send, aggregate and update.
        plan: which messages travel when.
        state: the states before the first round, `[N, d]`.
        initial: h0 for cells with an initial residual, `[N, d]`; None: `state` itself.
        runner: "fused", "streamed", or a runner with settings such as ``Streamed(dtype=torch.bfloat16)``.
            All give the same numbers; they differ in memory and speed. None is "fused".
        collect: return the states after each round, a list of T, instead of the last one.

    Raises:
        ValueError: when the runner is unknown, `state` does not fit the plan or is not of `DTYPES`, or the plan holds
            messages and the cell is not `local`.
    """
    if not cell.local and any(phase.num_held for phase in plan.distinct_phases()):
        raise ValueError(
            "A schedule that holds messages, such as held_cut, needs a cell whose rows follow from their own states "
            "and those of their senders alone (`local`); a convolution that reads the degrees of senders does not."
        )
    if state.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(f"States must be of type {names}. Got {str(state.dtype).removeprefix('torch.')}.")
    table = RUNNERS if plan.runners is None else plan.runners
    run = runner or "fused"
    if isinstance(run, str):
        check_choice("runner", run, table)
        run = table[run]
    elif plan.runners is not None and (run is fused or isinstance(run, Streamed)):
        raise ValueError(f"Under several processes `runner` must be one of {', '.join(table)}. Got {run!r}.")
    if state.is_leaf and state.requires_grad and state.device.type == "cpu" and state.is_contiguous():
        move_to_large(state)  # a parameter: read in every pass of a training
    ordered = plan.to_plan_order(state)
    h0 = None
    if cell.residual:
        h0 = ordered if initial is None else plan.to_plan_order(initial)
    if plan.num_rounds:
        states = run(cell, plan, cell.start(ordered), initial=h0, collect=collect)
    else:
        states = [] if collect else [cell.start(ordered)]
    visible = [plan.to_user_order(cell.finish(working)) for working in states]
    return visible if collect else visible[-1]


def fused(cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool) -> list[Tensor]:
    """The working state after each round, or after the last one only, in plan order, `[N + V, s]`.

    K disjoint subgraphs are one block-diagonal operator, so a step takes one pass over nodes ordered by part. Without
    gradients a phase of few rows, as waves have many, costs what these cost: a state is copied once, then overwritten.
    """
    states: list[Tensor] = []
    computation, is_own = Recomputation(cell, plan, None), False
    for number, phases in enumerate(plan.rounds):
        for phase, steps in round_steps(phases, number):
            block = phase.whole
            advance = partial(computation.advance, block, 0, steps=steps, initial=own_rows(initial, block))
            state = update_rows(state, block, advance, overwrite=is_own)
            is_own = not writes_all(block, state)  # a copy that nobody else has
        states = [*states, state] if collect else [state]  # others are free without gradients
        is_own = is_own and not collect
    return states


RUNNERS: dict[str, Runner] = {"fused": fused, "streamed": Streamed()}
