"""Recomputation: the steps of a phase, block by block, the same bits however often they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from gpnn.engine.block import Block
from gpnn.engine.lowered_phase import Halo
from gpnn.engine.plan import AnyPhase, Plan
from gpnn.engine.rows import HeldRows, Rows, RowsByBlock, read_rows, select_rows, write_rows
from gpnn.engine.step import CellLike, Step, check_width
from gpnn.kernels import hash_key
from gpnn.kernels.execution import share_calls
from gpnn.kernels.gated import for_gradients

SHARED_ROWS = 1 << 15  # a block with more gives every thread enough to do
FEW = 4  # a part has at most a fourth of its block's rows; with more, the whole is as quick
PART_DEVICES = ("cuda",)  # where the last step for some rows is a block of its own; a CPU's kernel takes them itself
WORTH_ROWS = 1 << 12  # a phase with fewer is done before a second thread is awake

Result = TypeVar("Result")


@dataclass(frozen=True)
class Recomputation:
    """A cell bound to a plan and to its random numbers.

    Attributes:
        cell: how nodes send, aggregate and update.
        plan: which messages travel when.
        seed: of the random numbers of a cell that is random; None for one that is not.
        part_edges: as in :class:`gpnn.engine.Streamed`.
    """

    cell: CellLike
    plan: Plan
    seed: int | None
    part_edges: float = 1.0

    @property
    def rounds(self) -> tuple[tuple[AnyPhase, ...], ...]:
        return self.plan.rounds

    def pieces(self, phase: AnyPhase) -> tuple[Block, ...]:
        """The blocks that are done one after the other."""
        return phase.chunks if self.cell.local else phase.blocks

    def blocks_are_independent(self, phase: AnyPhase) -> bool:
        """Whether no block reads a row that another writes, so that each may finish all steps before the next."""
        return phase.independent or len(self.pieces(phase)) == 1

    def chooses_rows(self, phase: AnyPhase) -> bool:
        """Whether the kernel of a phase's blocks takes some of their rows alone; it has one thread per block."""
        gated = getattr(self.cell, "takes_blocks", False) and self.plan.device.type == "cpu"
        return gated and self.blocks_are_independent(phase) and phase.piece_rows <= SHARED_ROWS

    def each(self, phase: AnyPhase, do: Callable[[int, Block], Result]) -> Iterator[Result]:
        """`do(number, block)` for the pieces of a phase, in their order.

        Small blocks go to the CPU's threads whole, so that `do` may write only rows that are its block's own.
        """
        pieces = self.pieces(phase)
        if self._shares(phase):
            return share_calls(len(pieces), lambda number: do(number, pieces[number]))
        return (do(number, block) for number, block in enumerate(pieces))

    def _shares(self, phase: AnyPhase) -> bool:
        """Whether blocks may be done at the same time: random numbers and autocast belong to one thread."""
        ours = getattr(self.cell, "returns_kernel_output", False) and self.seed is None
        if not ours or self.plan.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return False
        if phase.num_rows < WORTH_ROWS:
            return False
        return max(block.num_rows for block in self.pieces(phase)) <= SHARED_ROWS

    def do_phase(
        self,
        phase: AnyPhase,
        steps: list[Step],
        state: Tensor,
        initial: Tensor | None,
        before: Tensor | Rows | None = None,
        needed: RowsByBlock | None = None,
    ) -> None:
        """Do the steps of one phase without gradients: write the new rows into `state`.

        Rows are read from `before`, which keeps them; None: from `state` itself, in place. Of contiguous blocks
        only the rows in `needed` are written, if given; blocks must be independent then.
        """
        halo = None if before is not None else phase.halo
        start = None if halo is None else read_rows(state, halo.rows)  # [H, s]

        def written(
            steps: list[Step], source: Tensor | Rows, number: int, block: Block, wanted: Tensor | None = None
        ) -> Tensor:
            inputs = read_inputs(source, block, number, halo, start)
            rows = self.advance(block, number, inputs, steps, own_rows(initial, block), wanted)
            check_width(rows, state)
            return rows

        def finish(steps: list[Step], number: int, block: Block) -> None:
            source = state if before is None else before
            if needed is None or not isinstance(block.rows, slice):
                write_rows(state, block.rows, written(steps, source, number, block))
                return
            places, wanted = needed.of(block.rows)
            if places.start < places.stop:
                write_rows(state, needed.rows[places], written(steps, source, number, block, wanted))

        def hold(steps: list[Step], held: HeldRows, number: int, block: Block) -> None:
            held.put(number, written(steps, state, number, block))

        alone = self.blocks_are_independent(phase)
        if alone or before is not None:  # nothing that is read is written
            for _ in self.each(phase, partial(finish, steps if alone else steps[:1])):
                pass
            steps = [] if alone else steps[1:]
        for step in steps:  # blocks read each other's rows: all are computed before any is written
            updated = HeldRows(self.pieces(phase), state)
            for _ in self.each(phase, partial(hold, [step], updated)):
                pass
            for number, block in enumerate(self.pieces(phase)):
                write_rows(state, block.rows, updated.pop(number))

    def advance(
        self,
        block: Block,
        number: int,
        inputs: Tensor,
        steps: list[Step],
        initial: Tensor | None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """The rows that `block`, the phase's piece of that number, writes after all `steps`, `[n, s]`.

        With `wanted`, `[w]`, those of them alone, `[w, s]`: the last step need not be taken for others. Where a cell
        reads initial states and `initial` is None, they are those that the block starts from.
        """
        if initial is None and self.cell.residual:
            initial = inputs[: block.num_rows]
        if wanted is not None and takes_parts(self.cell, inputs.device):
            return self._advance_part(block, number, inputs, steps, initial, wanted)
        alone = wanted is not None and block.num_inputs == block.num_rows  # its operator need not be split
        together = getattr(self.cell, "advance_steps", None) if len(steps) > 1 or alone else None
        steps = [step._replace(initial=initial) for step in steps]
        whole = None if together is None else together(block, inputs, steps, wanted)
        if whole is not None:
            return whole
        rows, others, dtype = inputs[: block.num_rows], inputs[block.num_rows :], inputs.dtype
        for position, step in enumerate(steps):
            if position:
                check_width(rows, inputs)
                inputs = torch.cat([rows, others]) if len(others) else rows
            last = position + 1 == len(steps)
            with self._seeded(step, number), nullcontext() if last else for_gradients(alone=False):
                rows = self.cell.advance(block, inputs, step)
            rows = rows.to(dtype)  # under autocast a step may compute in bf16; states keep their type
        return rows if wanted is None else rows.index_select(0, wanted)

    def _advance_part(
        self, block: Block, number: int, inputs: Tensor, steps: list[Step], initial: Tensor | None, wanted: Tensor
    ) -> Tensor:
        """The same, the last step taken for the wanted rows alone, the one before for those that they read, and so on.

        Each is a block of its own, made once, as long as its rows, and the edges that it copies, are few.
        """
        part, own = block.part(wanted), None if initial is None else initial.index_select(0, wanted)
        if len(steps) > 1:
            few = is_part(len(part.own), block.num_rows, part.edges_before, self.part_edges)
            with for_gradients(alone=False):
                rows = self.advance(block, number, inputs, steps[:-1], initial, part.own if few else None)
            read = rows if few else select_rows(rows, part.own)
        else:
            read = select_rows(inputs, part.own)
        read = torch.cat([read, select_rows(inputs, part.others)]) if len(part.others) else read
        return self.advance(part.block, number, read, steps[-1:], own)

    @contextmanager
    def _seeded(self, step: Step, number: int) -> Iterator[None]:
        """The same random numbers whenever a block's step is done again."""
        if self.seed is None:
            yield
            return
        device = self.plan.device
        with torch.random.fork_rng([] if device.type == "cpu" else [device]):
            torch.manual_seed(hash_key(self.seed, step.round, step.phase, step.repeat, number) >> 1)
            yield


def takes_parts(cell: CellLike, device: torch.device) -> bool:
    """Whether a step for some of a block's rows is a block of its own."""
    return device.type in PART_DEVICES and getattr(cell, "returns_kernel_output", False) and cell.local


def is_part(num_rows: int, num_all: int, edges: float, part_edges: float) -> bool:
    """Whether a step for some of a block's rows, with a share of its edges, is taken by a part, not by the block."""
    return FEW * num_rows <= num_all and edges <= part_edges


def round_steps(phases: Sequence[AnyPhase], number: int) -> Iterator[tuple[AnyPhase, list[Step]]]:
    """The phases of round `number`, in order, each with its steps, one per repeat."""
    for position, phase in enumerate(phases):
        first = Step(number, phase.kind, 0, phase=position, closing=phase.closing)
        first = first._replace(synchronous=len(phases) == phase.repeat == 1 and phase.sends_all)
        yield phase, [first._replace(repeat=repeat) for repeat in range(phase.repeat)]


def read_inputs(state: Tensor | Rows, block: Block, number: int, halo: Halo | None, start: Tensor | None) -> Tensor:
    """The inputs of a phase's block of that number, `[m, s]`; `start`, `[H, s]`, is the halo at the phase's start."""
    if halo is None or start is None:
        return read_rows(state, block.inputs)
    return torch.cat([read_rows(state, block.rows), read_rows(start, halo.places[number])])


def own_rows(initial: Tensor | None, block: Block) -> Tensor | None:
    """The initial states of the rows that `block` writes, `[n, s]`."""
    return None if initial is None else initial[block.rows]
