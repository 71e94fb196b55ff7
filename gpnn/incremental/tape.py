"""Tape: the states of a graph's nodes after every step of its schedule."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.engine import Plan
from gpnn.engine.recompute import Recomputation, own_rows, round_steps
from gpnn.engine.step import CellLike
from gpnn.incremental.reach import Round


class Tape:
    """Working states before the first step and after each, a tensor `[S, s]` for each of the L + 1.

    Args:
        states: the tensors.
        nodes: the slot of each of their rows, rising, `[S]`; None: row i is slot i.
    """

    def __init__(self, states: list[Tensor], nodes: np.ndarray | None = None) -> None:
        self.states = states
        self.nodes = nodes

    def read(self, step: int, slots: np.ndarray) -> Tensor:
        """The states of some nodes after a step, `[n, s]`."""
        return self.states[step].index_select(0, self._rows(slots))

    def write(self, step: int, slots: np.ndarray, values: Tensor) -> None:
        """Set them."""
        self.states[step].index_copy_(0, self._rows(slots), values.to(self.states[step].dtype))

    def enlarge(self, num_slots: int) -> None:
        """Have at least so many rows."""
        if len(self.states[0]) < num_slots:
            more = self.states[0].new_zeros(num_slots - len(self.states[0]), self.states[0].shape[1])
            for step, state in enumerate(self.states):
                self.states[step] = torch.cat([state, more])

    def _rows(self, slots: np.ndarray) -> Tensor:
        rows = slots if self.nodes is None else np.searchsorted(self.nodes, slots)
        return torch.from_numpy(rows.astype(np.int64, copy=False)).to(self.states[0].device)


class Recorder:
    """A runner that keeps the state after every step, in the user's order.

    Args:
        round: the schedule; a phase that its plan leaves out, for want of edges, changes nothing.
    """

    def __init__(self, round: Round) -> None:
        self.round = round
        self.states: list[Tensor] = []

    def __call__(
        self, cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        computation, ends = Recomputation(cell, plan, None), []
        self.states = [plan.to_user_order(state)]
        for number, phases in enumerate(plan.rounds):
            left = {phase.kind: (phase, steps) for phase, steps in round_steps(phases, number)}
            for spec in self.round.phases:
                if spec.kind not in left:
                    self.states += [self.states[-1]] * spec.repeat
                    continue
                phase, steps = left[spec.kind]
                inputs = phase.whole.read(state)
                others = inputs[phase.whole.num_rows :]
                for step in steps:
                    rows = computation.advance(phase.whole, 0, inputs, [step], own_rows(initial, phase.whole))
                    state = state.clone()
                    state[phase.whole.rows] = rows
                    self.states.append(plan.to_user_order(state))
                    inputs = torch.cat([rows, others])
            ends.append(state)
        return ends if collect else ends[-1:]

    def tape(self, slots: np.ndarray, num_slots: int) -> Tape:
        """What was kept, the rows at their slots, `[N]` of `num_slots`."""
        rows, found = torch.from_numpy(slots).to(self.states[0].device), []
        while self.states:
            state = self.states.pop(0)
            found.append(state.new_zeros(num_slots, state.shape[1]).index_copy_(0, rows, state))
        return Tape(found)
