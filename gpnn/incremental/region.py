"""Region: a part of a graph whose states are computed again, step by step, from a tape's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.engine import Plan
from gpnn.engine.block import Block, BlockBuilder, Messages
from gpnn.engine.lowered_phase import LoweredPhase, join_rows
from gpnn.engine.normalize import Normalizer
from gpnn.engine.recompute import Recomputation
from gpnn.engine.step import CellLike, Step
from gpnn.graph import Graph
from gpnn.incremental.dynamic_graph import SENDS, DynamicGraph, Edges, Round
from gpnn.incremental.rows import distinct, ranges
from gpnn.kernels import Operator
from gpnn.schedule import Phase, PhaseSpec

if TYPE_CHECKING:
    from gpnn.incremental.variants import VariantGraph, VariantTape


class Tape:
    """Working states before the first step and after each, a tensor `[S, s]` for each of the L + 1.

    Args:
        num_rows: how many rows there are, S.
        nodes: the slot of each row, rising, `[S]`; None: row i is slot i.
    """

    def __init__(self, num_rows: int, nodes: np.ndarray | None = None) -> None:
        self.num_rows, self.nodes = num_rows, nodes
        self.states: list[Tensor] = []  # until a region fills it

    def begin(self, state: Tensor, num_states: int) -> None:
        """Make room for so many tensors of states like this one."""
        self.states = [state.new_zeros(self.num_rows, state.shape[1]) for _ in range(num_states)]

    def read(self, step: int, slots: np.ndarray) -> Tensor:
        """The states of some nodes after a step, `[n, s]`."""
        return self.states[step].index_select(0, self._rows(slots))

    def write(self, step: int, slots: np.ndarray, values: Tensor) -> None:
        """Set them."""
        self.states[step].index_copy_(0, self._rows(slots), values.to(self.states[step].dtype))

    def enlarge(self, num_slots: int) -> None:
        """Have at least so many rows."""
        if self.num_rows < num_slots:
            more = self.states[0].new_zeros(num_slots - self.num_rows, self.states[0].shape[1])
            for step, state in enumerate(self.states):
                self.states[step] = torch.cat([state, more])
            self.num_rows = num_slots

    def _rows(self, slots: np.ndarray) -> Tensor:
        rows = slots if self.nodes is None else np.searchsorted(self.nodes, slots)
        return torch.from_numpy(rows.astype(np.int64, copy=False)).to(self.states[0].device)


class Region:
    """A runner over some nodes: a step computes the rows that are named for it and reads all else from a tape.

    Local ids number the rows that are computed, then their other senders as they are at each step, then senders as
    they were at the start of a phase that holds messages.

    Args:
        graph: the graph.
        round: its schedule.
        rows: the slots to set at the start, and to compute in each step, rising.
        wanted: the slots whose states are wanted, rising.
        normalization: the rule of the messages' weights.
        self_loops: whether every node also receives its own message.
        device: where states are computed.
        tape: the rows that are read and not written; an empty one, where all that is read is also written.

    Attributes:
        nodes: the slots whose initial states the runner takes, and whose states it gives, rising, `[n]`.
    """

    def __init__(
        self,
        graph: DynamicGraph | VariantGraph,
        round: Round,
        rows: Sequence[np.ndarray],
        wanted: np.ndarray,
        *,
        normalization: str,
        self_loops: bool,
        device: torch.device,
        tape: Tape | VariantTape,
    ) -> None:
        self.graph, self.round, self.rows, self.tape = graph, round, rows, tape
        self.rule, self.loop, self.device = normalization, float(self_loops), device
        self.own = distinct(*{id(each): each for each in rows[1:] or rows}.values())
        self.nodes = distinct(rows[0], wanted)
        self._blocks: dict[tuple[PhaseSpec, bytes], Block] = {}

    def __call__(
        self, cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        """The states of `nodes` after each round, or after the last one only."""
        tape, computation, ends = self.tape, Recomputation(cell, plan, None), []
        if isinstance(tape, Tape) and not tape.states:
            tape.begin(state, len(self.rows))
        tape.write(0, self.rows[0], state[torch.from_numpy(np.searchsorted(self.nodes, self.rows[0]))])
        first = 0  # the step that the present phase began after
        for done, (number, position, phase, repeat) in enumerate(self.round.steps()):
            first = done if repeat == 0 else first
            rows = self.rows[done + 1]
            tape.write(done + 1, rows, tape.read(done, rows))
            block = self._block(phase, rows)
            if block.num_rows:
                local = join_rows([block.inputs], "cpu").numpy()
                written = self.local[local[: block.num_rows]]
                own = None if initial is None else cell.finish(tape.read(0, written))
                step = Step(number, phase.kind, repeat, phase=position, closing=phase.closing)
                found = computation.advance(block, 0, self._read(local, done, first), [step], own)
                tape.write(done + 1, written, found)
            if (position, repeat + 1) == (len(self.round.phases) - 1, phase.repeat):
                ends.append(tape.read(done + 1, self.nodes))
        return ends if collect else ends[-1:]

    def _read(self, local: np.ndarray, step: int, first: int) -> Tensor:
        """The inputs of a block, `[m, s]`; held ones come last."""
        present = local < len(self.local)
        now = self.tape.read(step, self.local[local[present]])
        if present.all():
            return now
        return torch.cat([now, self.tape.read(first, self.held[local[~present] - len(self.local)])])

    @cached_property
    def edges(self) -> Edges:
        """The edges into the rows that are computed, by slots."""
        return self.graph.edges_into(self.own)

    @cached_property
    def crosses(self) -> np.ndarray:
        labels = self.graph.labels
        return labels[self.edges.src] != labels[self.edges.dst]

    @cached_property
    def local(self) -> np.ndarray:
        """The slot of each local id but those of held senders: the rows that are computed, then other senders."""
        computed = np.zeros(self.graph.num_slots, bool)
        computed[self.own] = True
        return np.concatenate([self.own, distinct(self.edges.src[~computed[self.edges.src]])])

    @cached_property
    def held(self) -> np.ndarray:
        """The slots of senders that phases hold, where there are any."""
        holds = any(phase.kind == "held" for phase in self.round.phases)
        return distinct(self.edges.src[self.crosses]) if holds else self.own[:0]

    @cached_property
    def _structure(self) -> Graph:
        """The edges by local ids."""
        place = np.empty(self.graph.num_slots, np.int64)
        place[self.local] = np.arange(len(self.local))
        src, dst = place[self.edges.src], place[self.edges.dst]
        if len(self.held):
            src[self.crosses] = len(self.local) + np.searchsorted(self.held, self.edges.src[self.crosses])
        values = (None if each is None else torch.from_numpy(each) for each in self.edges[2:])
        size = len(self.local) + len(self.held)
        return Graph(torch.from_numpy(src), torch.from_numpy(dst), size, *values)

    @cached_property
    def _builder(self) -> BlockBuilder:
        return BlockBuilder(self._structure, self.device)

    def _block(self, phase: PhaseSpec, rows: np.ndarray) -> Block:
        """What a step of the phase does for these rows."""
        key = (phase, rows.tobytes())
        if key not in self._blocks:
            chosen = np.zeros(len(self.own), bool)
            chosen[np.searchsorted(self.own, rows)] = True
            whole = self._whole[phase]
            written = join_rows([whole.inputs], "cpu").numpy()[: whole.num_rows]
            self._blocks[key] = _take_rows(whole, np.flatnonzero(chosen[written]))
        return self._blocks[key]

    @cached_property
    def _whole(self) -> dict[PhaseSpec, Block]:
        """What a step of each phase does for all rows that are computed."""
        return {phase: self._builder.build(messages) for phase, messages in self._messages.items()}

    @cached_property
    def _messages(self) -> dict[PhaseSpec, Messages]:
        """All messages of each phase to the rows that are computed."""
        slots = np.concatenate([self.local, self.held])
        inside, cut = (torch.from_numpy(each[slots]) for each in (self.graph.inside, self.graph.cut))
        size = len(slots)
        rule = Normalizer(self.rule, self._structure, None, self.loop, inside + cut + self.loop, torch.zeros_like(cut))
        crosses, found = torch.from_numpy(self.crosses), {}
        for phase in self.round.phases:
            sends = SENDS[phase.kind]
            weight = inside * sends[0] + cut * sends[1]

            def complete(degree: Tensor, weight: Tensor = weight) -> None:
                degree[len(self.own) : size] = weight[len(self.own) :]

            sent = (crosses & sends[1]) | (~crosses & sends[0])
            listed = Phase(sent.nonzero().flatten(), self._updating(phase), phase.repeat, phase.kind)
            lowered = LoweredPhase(listed, rule._replace(complete=complete), None, self._builder, 0, lambda: None)
            found[phase] = lowered.messages()
        return found

    def _updating(self, phase: PhaseSpec) -> Tensor:
        """Local ids of the rows that the phase updates, `[n]`."""
        graph, updates = self.graph, np.ones(len(self.own), bool)
        if phase.kind == "cut":
            updates = (graph.at_cut if phase.update == "members" else graph.receives_cut)[self.own]
        elif phase.kind == "inside" and phase.update == "receivers":
            updates = graph.receives_inside[self.own]
        return torch.from_numpy(np.flatnonzero(updates))


def _take_rows(block: Block, rows: np.ndarray) -> Block:
    """The part of a block that writes some of its rows, rising `[n]`."""
    if len(rows) == block.num_rows:
        return block
    device, mark = block.operators[0].ptr.device, np.zeros(block.num_inputs, bool)
    entries, columns, pointer = [], [], []
    for operator in block.operators:
        ptr = operator.ptr.cpu().numpy()
        counts = ptr[rows + 1] - ptr[rows]
        entries.append(torch.from_numpy(ranges(ptr[rows], counts)).to(device))
        columns.append(operator.col[entries[-1]].cpu().numpy())
        pointer.append(torch.from_numpy(pointers(counts)))
        mark[columns[-1]] = True
    mark[rows] = False
    kept = np.concatenate([rows, np.flatnonzero(mark)])
    place = np.empty(len(mark), np.int32)
    place[kept] = np.arange(len(kept))
    written, read = torch.from_numpy(rows).to(device), torch.from_numpy(kept).to(device)

    def pick(values: Tensor | None, at: Tensor) -> Tensor | None:
        return None if values is None else values[at]

    operators, shape = [], (len(rows), len(kept))
    for operator, at, column, begins in zip(block.operators, entries, columns, pointer):
        weight = None if operator.weight is None else operator.weight[at].cpu()
        made = Operator.from_csr(begins, torch.from_numpy(place[column]), weight, shape).to(device)
        row_scale, col_scale = pick(operator.row_scale, written), pick(operator.col_scale, read)
        operators.append(replace(made, row_scale=row_scale, col_scale=col_scale))
    raw = tuple(pick(weight, at) for weight, at in zip(block.raw_weights, entries))
    inputs = join_rows([block.inputs], device)[read]
    diagonal, degree = pick(block.diagonal, written), pick(block.degree, read)
    return Block(inputs, len(rows), tuple(operators), raw, None, diagonal, degree)
