"""Reach: what each phase must compute for the rows that a loss reads; the loss and its gradients through these alone.

After the last phase the rows of the loss are needed, before it those that these read, and so on: with few labels the
last steps are taken for few rows, whatever the schedule. States and gradients are stored for the rows that are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gpnn.csr import slices
from gpnn.engine.block import Block, as_slice
from gpnn.engine.blockwise_backward import RowLoss, add_gradient
from gpnn.engine.plan import AnyPhase, Plan
from gpnn.engine.recompute import Recomputation, round_steps, takes_parts
from gpnn.engine.rows import Rows, add_rows, read_rows, step_rows, write_rows
from gpnn.engine.saved_states import Source
from gpnn.engine.step import Step
from gpnn.kernels.gated import for_gradients
from gpnn.pages import empty_like

WORTH = 0.75  # of the rows of all steps, below which what is left out pays for rows that are not contiguous
WHOLE = 0.5  # of a block's rows: with more it is computed whole
SPARSE, WHOLE_SPARSE = 4, 0.9  # edges per row, up to which a part takes little memory; the same for such a block
NEARLY = 0.82  # of a block's rows: with more all of them are stored
ALMOST = 0.9  # of all rows: with more all of them are stored, where they stand
MOST_MADE = 12  # initial states that are made of features in one pass over the first phase, per row
MANY = 1 << 23  # rows that a part reads, from which on initial states are differentiated a range at a time


class Part(NamedTuple):
    """A block of a phase, or a part of one, that writes rows which are needed.

    Attributes:
        number: of the phase's piece.
        block: the piece, or its part.
        inputs: where what it reads stands among the rows that its stage reads, `[m]`.
        wanted: which of the rows that it writes are needed, `[w]`; None: all.
        rows: where these stand after the stage, `[w]`.
    """

    number: int
    block: Block
    inputs: Tensor | slice
    wanted: Tensor | None
    rows: Tensor | slice


@dataclass(frozen=True, eq=False)
class Stage:
    """A step over the rows that are needed after it.

    Attributes:
        steps: the one step.
        read: which rows of the state before it the parts read, `[m]`; None: all, and there are no others.
        passed: rows that no part writes: where they stand before and after it; None: there are none.
        parts: what is computed.
        num_before: rows of the state before it.
        num_rows: rows of the state after it.
        num_computed: rows that the parts write.
        num_inputs: rows that they read, one after the other.
        kept: whether what it reads is kept for the backward pass; else the stage before is done again.
        apart: whether no two parts read a row, and together they read all, so that gradients take the states' place.
        in_place: whether the rows after it are those before it, so that what passes it stays where it is.
    """

    steps: list[Step]
    read: Tensor | slice | None
    passed: tuple[Tensor | slice, Tensor | slice] | None
    parts: tuple[Part, ...]
    num_before: int
    num_rows: int
    num_computed: int
    num_inputs: int
    kept: bool = True
    apart: bool = False
    in_place: bool = False

    @property
    def num_read(self) -> int:
        return self.num_before if self.read is None else _count(self.read)

    @property
    def num_passed(self) -> int:
        """Rows that are copied past it."""
        return 0 if self.passed is None or self.in_place else _count(self.passed[0])

    def rows_read(self, state: Tensor | Rows) -> Tensor | Rows:
        """What the parts read, given the state before it."""
        return state if self.read is None else read_rows(state, self.read)


@dataclass(frozen=True)
class Reach:
    """The stages of a plan for the rows of a loss, first to last; the first reads all rows of the source."""

    stages: tuple[Stage, ...]

    @property
    def num_computed(self) -> int:
        """Rows that are computed in one pass forward."""
        return sum(stage.num_computed for stage in self.stages)

    @property
    def num_held(self) -> int:
        """Rows of states and gradients that are held at one time, at most."""
        return max(self.held_by_stage)

    @property
    def held_by_stage(self) -> list[int]:
        """The same while each stage is at work, there or back."""
        first, *later = self.stages
        kept = [0, *accumulate(stage.num_read if stage.kept else 0 for stage in later)]
        return [first.num_rows, *(_held(stage, before) for before, stage in zip(kept, later))]


def _held(stage: Stage, before: int) -> int:
    """Rows that are held while a later stage is at work, beside `before` that earlier ones have kept."""
    read, passed = stage.num_read, stage.num_passed
    held = [
        read + passed + stage.num_rows,  # forward
        (1 if stage.apart else 2) * read + stage.num_rows,  # parts backward
        read + stage.num_rows + passed,  # what passed them
    ]
    if not stage.kept:
        held.append(stage.num_before + read + stage.num_rows)  # done again
    if stage.read is not None and not stage.in_place:
        held.append(stage.num_before + read + passed)  # both ways
    return before + max(held)


_found = WeakTensorKeyDictionary()  # rows of a loss -> the phases that they were followed through, and their reach


def reach_of(recomputation: Recomputation, rows: Tensor) -> Reach | None:
    """What plan rows, distinct, rising, `[n]`, reach; None where a pass over all rows is as good.

    Found once for a plan, and kept as long as `rows` is.
    """
    if not can_follow(recomputation, rows):
        return None
    rounds = recomputation.rounds
    if rows not in _found or _found[rows][0] is not rounds:
        _found[rows] = rounds, worthwhile(follow(recomputation, rows), recomputation.plan, len(rows))
    return _found[rows][1]


def can_follow(recomputation: Recomputation, rows: Tensor) -> bool:
    """Whether a pass may go through what plan rows reach, `[n]`, whether or not that is less."""
    plan = recomputation.plan
    if plan.runners is not None or plan.num_virtual or recomputation.seed is not None or not len(rows):
        return False
    phases = [phase for each in plan.rounds for phase in each]
    if len(phases) < 2 or any(phase.repeat > 1 for phase in phases):
        return False
    return takes_parts(recomputation.cell, rows.device) and len(rows) <= WORTH * plan.num_nodes


def worthwhile(found: Reach, plan: Plan, num_rows: int) -> Reach | None:
    """The reach of so many rows, where it computes less than all rows would take, and holds no more."""
    usual = sum(phase.num_rows for each in plan.rounds for phase in each)
    if len(plan.rounds[-1]) == 1 and plan.rounds[-1][0].independent:
        usual -= plan.rounds[-1][0].num_rows - num_rows  # its last step is taken for these rows anyway
    if found.num_computed > WORTH * usual or found.stages[0].num_inputs > MOST_MADE * plan.num_nodes:
        return None
    most = 3.25 if any(len(each) > 1 for each in plan.rounds) else 2.5  # states; about what a pass over all rows holds
    return within(found, int(most * plan.num_nodes))


def within(reach: Reach, most: int) -> Reach | None:
    """The same holding at most so many rows: what second phases read is computed again, those of early rounds first."""
    stages = reach.stages
    for position, (before, stage) in enumerate(pairwise(stages), 1):
        if Reach(stages).num_held <= most:
            break
        if before.passed is None and before.kept and stage.steps[0].phase:
            stages = (*stages[:position], replace(stage, kept=False), *stages[position + 1 :])
    found = Reach(stages)
    return found if found.num_held <= most else None


def follow(recomputation: Recomputation, rows: Tensor) -> Reach:
    """The stages that plan rows, distinct, rising, `[n]`, need, whatever they cost."""
    plan = recomputation.plan
    phases = [each for number, phases in enumerate(plan.rounds) for each in round_steps(phases, number)]
    needed = torch.zeros(plan.num_nodes, dtype=torch.bool, device=rows.device)
    needed[rows] = True
    stages: list[Stage] = []
    for position in reversed(range(len(phases))):
        previous = None if position == 0 else phases[position - 1][0]
        stage, needed = _stage(recomputation, *phases[position], needed, previous)
        stages.append(stage)
    return Reach(tuple(reversed(stages)))


def _stage(
    recomputation: Recomputation, phase: AnyPhase, steps: list[Step], after: Tensor, previous: AnyPhase | None
) -> tuple[Stage, Tensor]:
    """The stage of a phase given which rows are needed after it, bool `[N]`; also which are before it."""
    places, chosen = _places(after), list(_choose(recomputation.pieces(phase), after))
    read, passed = torch.zeros_like(after), after.clone()
    for block in recomputation.pieces(phase):
        passed[block.rows] = False
    for each in chosen:
        read[each.inputs] = True
    before = read | passed
    if previous is None:
        before = torch.ones_like(before)
    else:
        for block in recomputation.pieces(previous):
            if bool(before[block.rows].sum() > NEARLY * block.num_rows):
                before[block.rows] = True
        if bool(before.sum() > ALMOST * len(before)):
            before[:] = True
    around = bool(passed.any())
    before_places = _places(before)
    stands = before_places if previous is None or not around else _places(read)
    parts = tuple(each._replace(inputs=stands(each.inputs), rows=places(each.rows)) for each in chosen)
    passing = passed.nonzero().flatten() if around else None
    num_read = int(read.sum()) if around else before_places.num_rows
    num_inputs = sum(part.block.num_inputs for part in parts)
    stored = None if previous is None or passing is None else before_places(read.nonzero().flatten())
    stage = Stage(
        steps,
        stored,
        None if passing is None else (before_places(passing), places(passing)),
        parts,
        before_places.num_rows,
        places.num_rows,
        sum(part.block.num_rows for part in parts),
        num_inputs,
        apart=previous is not None and num_inputs == num_read,
        in_place=isinstance(stored, Tensor) and torch.equal(before, after),
    )
    return stage, before


def _choose(pieces: Sequence[Block], after: Tensor) -> Iterator[Part]:
    """The blocks that write needed rows, or their parts; inputs and rows are plan rows."""
    for number, block in enumerate(pieces):
        wanted = after[block.rows].nonzero().flatten()
        if not len(wanted):
            continue
        sparse = block.num_entries <= SPARSE * block.num_rows
        if len(wanted) > (WHOLE_SPARSE if sparse else WHOLE) * block.num_rows:
            some = None if len(wanted) == block.num_rows else wanted
            yield Part(number, block, block.inputs, some, block.rows if some is None else _among(block.rows, wanted))
        else:
            part = block.part(wanted).block
            assert isinstance(part.inputs, Tensor)
            yield Part(number, part, _among(block.inputs, part.inputs), None, _among(block.rows, wanted))


def _among(rows: Tensor | slice, some: Tensor) -> Tensor:
    """rows[some]."""
    return some + rows.start if isinstance(rows, slice) else rows[some]


class _Places:
    """Where plan rows stand among those that are stored."""

    def __init__(self, place: Tensor | None, num_rows: int) -> None:
        self.place, self.num_rows = place, num_rows

    def __call__(self, rows: Tensor | slice) -> Tensor | slice:
        if self.place is None:
            return rows
        found = self.place[rows]  # the CPU's kernels are compiled for int64; a GPU has no memory to spare
        return as_slice(found if found.is_cuda else found.long())


def _places(stored: Tensor) -> _Places:
    """The same given which are, bool `[N]`."""
    count = int(stored.sum())
    return _Places(None if count == len(stored) else stored.cumsum(0, dtype=torch.int32) - 1, count)


def _count(rows: Tensor | slice) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def _work(block: Block) -> int:
    """States that differentiating a block takes, at most: of what it reads, with what makes it, and writes."""
    return (9 * block.num_inputs) // 4 + 10 * block.num_rows + 4 * min(block.num_inputs, MANY)


def fitting(reach: Reach, source: Source) -> Reach | None:
    """The same where a GPU has room for what it holds beside what is there; with less kept, where it has less.

    None where that is not enough. On a CPU there is nothing to ask.
    """
    like = source.read(slice(0, 1))
    if not like.is_cuda:
        return reach
    largest = max(_work(part.block) for stage in reach.stages for part in stage.parts)
    return within(reach, _free_bytes(like.device) // (like.shape[1] * like.element_size()) - largest)


def _free_bytes(device: torch.device) -> int:
    """What torch may still take of a GPU."""
    reserved = torch.cuda.memory_reserved(device)
    free, whole = torch.cuda.mem_get_info(device)
    if hasattr(torch.cuda, "get_per_process_memory_fraction"):
        free = min(free, int(torch.cuda.get_per_process_memory_fraction(device) * whole) - reserved)
    return free + reserved - torch.cuda.memory_allocated(device)


def through_reach(
    recomputation: Recomputation, reach: Reach, source: Source, parameters: tuple[Tensor, ...], loss: RowLoss
) -> tuple[Tensor, list[Tensor | None]]:
    """The loss, and the gradients of the source's tensors and of the parameters, through what its rows reach.

    Initial states are made where the first stage reads them, and differentiated at once: there is no gradient of them.
    """
    work = _Pass(recomputation, source, tuple(dict.fromkeys((*source.tensors, *parameters))))
    state: Tensor | Rows = source
    kept: list[Tensor | Rows | None] = []  # by stage: what it reads
    for stage in reach.stages:
        read = stage.rows_read(state)
        passed = None if stage.passed is None or stage.in_place else read_rows(state, stage.passed[0])
        kept.append(read if stage.kept else None)
        into = state if stage.in_place else None
        del state
        state = work.forward(stage, read, passed, into)
        del read, passed, into
    assert isinstance(state, Tensor)
    value, grad = work.through_loss(state, loss)
    del state
    for position in reversed(range(1, len(reach.stages))):
        stage, found = reach.stages[position], kept.pop()
        if found is None:
            before = kept[-1]
            assert before is not None
            found = stage.rows_read(work.forward(reach.stages[position - 1], before))
            del before
        assert isinstance(found, Tensor)
        total = work.backward(stage, found, grad)
        del found  # before there is another gradient of a whole state
        passed = None if stage.passed is None or stage.in_place else read_rows(grad, stage.passed[1])
        into = grad if stage.in_place else None
        del grad
        grad = work.before(stage, total, passed, into)
        del total, passed, into
    work.backward_from_source(reach.stages[0], grad)
    return value, [work.totals.pop(each, None) for each in (*source.tensors, *parameters)]


class _Pass:
    """A pass there and back: the gradients of tensors as far as it has come."""

    def __init__(self, recomputation: Recomputation, source: Source, tensors: tuple[Tensor, ...]) -> None:
        self.recomputation, self.source, self.tensors = recomputation, source, tensors
        self.totals: dict[Tensor, Tensor | None] = dict.fromkeys(tensors)
        self._like = source.read(slice(0, 1))

    def forward(
        self, stage: Stage, read: Tensor | Rows, passed: Tensor | None = None, into: Tensor | Rows | None = None
    ) -> Tensor:
        """The state after a stage, given what its parts read and what passes them; `into` has the latter."""
        after = into if isinstance(into, Tensor) else self._new(stage.num_rows)
        if stage.passed is not None and passed is not None:
            write_rows(after, stage.passed[1], passed)
        for part in stage.parts:
            rows = self.recomputation.advance(part.block, part.number, read_rows(read, part.inputs), stage.steps, None)
            write_rows(after, part.rows, rows if part.wanted is None else read_rows(rows, part.wanted))
        return after

    def through_loss(self, state: Tensor, loss: RowLoss) -> tuple[Tensor, Tensor]:
        """The loss of its rows' states after the last stage, and their gradient."""
        shares, grad = [], torch.zeros_like(state)
        for places in slices(len(state), step_rows(state.device)):
            with torch.enable_grad():
                states = state[places].detach().requires_grad_()
                share = loss.share(states, places)
            found = self._differentiate(share, (states,), None)[0]
            if found is not None:
                grad[places] = found
            shares.append(share.detach())
        return torch.stack(shares).sum(), grad

    def backward(self, stage: Stage, read: Tensor, grad: Tensor) -> Tensor:
        """The gradient of what a stage reads, given that of the state after it."""
        total = read if stage.apart else torch.zeros_like(read)
        for part in stage.parts:
            with torch.enable_grad(), self._only_gradients():
                inputs = read_rows(read, part.inputs).detach().requires_grad_()
                out = self.recomputation.advance(part.block, part.number, inputs, stage.steps, None)
            found = self._differentiate(out, (inputs,), self._received(part, grad))[0]
            if stage.apart:
                write_rows(total, part.inputs, torch.zeros_like(inputs) if found is None else found)
            else:
                add_rows(total, part.inputs, found)
            del inputs, out, found  # before the next are made
        return total

    def before(self, stage: Stage, total: Tensor, passed: Tensor | None, into: Tensor | None) -> Tensor:
        """The gradient of the state before a stage, given that of what it reads and of the rows that pass it.

        With `into`, which has the latter, it takes the place of that.
        """
        if stage.read is None:
            return total
        grad = self._new(stage.num_before).zero_() if into is None else into
        write_rows(grad, stage.read, total)
        if stage.passed is not None and passed is not None:
            add_rows(grad, stage.passed[0], passed)
        return grad

    def backward_from_source(self, stage: Stage, grad: Tensor) -> None:
        """The same for the first stage, whose inputs are made again."""
        if stage.passed is not None:
            passed, after = stage.passed
            self._through_source(passed, read_rows(grad, after))
        for part in stage.parts:
            many = part.block.num_inputs > MANY
            with torch.enable_grad(), self._only_gradients():
                made = self.source.read(part.inputs) if many else self.source.make(part.inputs)
                inputs = made.detach().requires_grad_() if many else made
                out = self.recomputation.advance(part.block, part.number, inputs, stage.steps, None)
            found = self._differentiate(out, (inputs,) if many else (), self._received(part, grad))
            if many:
                del made, inputs, out  # before others are made
                self._through_source(part.inputs, found.pop())

    def _through_source(self, rows: Tensor | slice, grad: Tensor | None) -> None:
        """Add what initial states of distinct rows, whose gradient is given, `[m, s]`, send to the tensors."""
        if grad is None:
            return
        chosen = range(rows.start, rows.stop) if isinstance(rows, slice) else rows
        for places in slices(len(chosen), MANY):
            some = chosen[places]
            with torch.enable_grad():
                made = self.source.make(slice(some.start, some.stop) if isinstance(some, range) else some)
            self._differentiate(made, (), grad[places])

    def _received(self, part: Part, grad: Tensor) -> Tensor:
        """The gradient of the rows that a part writes, `[n, s]`, given that after the stage."""
        received = read_rows(grad, part.rows)
        if part.wanted is None:
            return received
        whole = self._new(part.block.num_rows).zero_()
        write_rows(whole, part.wanted, received)
        return whole

    def _differentiate(self, out: Tensor, inputs: tuple[Tensor, ...], grad: Tensor | None) -> list[Tensor | None]:
        """Gradients of `inputs`; those of the pass's tensors are added to their totals."""
        if not out.requires_grad:
            return [None] * len(inputs)
        found = torch.autograd.grad(out, (*inputs, *self.tensors), grad, allow_unused=True)
        for each, value in zip(self.tensors, found[len(inputs) :]):
            self.totals[each] = add_gradient(self.totals[each], value)
        return list(found[: len(inputs)])

    def _new(self, num_rows: int) -> Tensor:
        return empty_like(self._like.expand(num_rows, -1))

    def _only_gradients(self) -> AbstractContextManager[None]:
        """Rows whose values nobody reads are not computed."""
        return for_gradients() if getattr(self.recomputation.cell, "returns_kernel_output", False) else nullcontext()
