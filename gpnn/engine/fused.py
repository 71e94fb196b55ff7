"""The fused runner: each phase is one kernel over all its blocks, gradients by autograd."""

from __future__ import annotations

from torch import Tensor

from gpnn.engine.plan import AnyPhase, Plan
from gpnn.engine.step import CellLike, Step
from gpnn.engine.update_rows import update_rows


def fused(cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool) -> list[Tensor]:
    """The working state after each round, or after the last one only, in plan order, `[N + V, s]`.

    K disjoint subgraphs are one block-diagonal operator, so a phase takes one pass over nodes ordered by part.
    """
    states = []
    for number, phases in enumerate(plan.rounds):
        for position, phase in enumerate(phases):
            for repeat in range(phase.repeat):
                step = Step(number, phase.kind, repeat, phase=position)
                state = _step(cell, phase, state, step, initial)
        states.append(state)
    return states if collect else states[-1:]


def _step(cell: CellLike, phase: AnyPhase, state: Tensor, step: Step, initial: Tensor | None) -> Tensor:
    block = phase.whole
    if initial is not None:
        step = step._replace(initial=initial[block.rows])
    # under autocast the cell may give bf16
    return update_rows(state, block, lambda inputs: cell.advance(block, inputs, step).to(state.dtype))
