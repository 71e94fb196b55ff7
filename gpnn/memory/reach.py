"""count_reach: what the rows of a loss will reach, counted on the graph's rows before any block of a plan is built.

count_parts: the same of blocks that take all their steps one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.csr import row_entries
from gpnn.engine.lowered_phase import LoweredRows
from gpnn.engine.plan import AnyPhase, Plan
from gpnn.engine.reach import ALMOST, NEARLY, SPARSE, WHOLE, WHOLE_SPARSE, Reach, Stage, within, worthwhile
from gpnn.engine.recompute import is_part, round_steps
from gpnn.engine.step import Step
from gpnn.schedule.phase_spec import RECEIVES_CUT, RECEIVES_INSIDE, SENDS_CUT

_ENTRY, _ROW = 8, 12  # bytes of a part of a block per entry, and per row that it reads or writes: ids and pointers
_WEIGHT = 8  # bytes of a weight per entry, where entries have weights, and of where it is in the transpose
_PLACE = 4  # bytes for each row that a block reads, where not all rows are stored, on a GPU


class PartSize(NamedTuple):
    """Sizes of a block, or of a part of one, that writes rows which are needed."""

    rows: int
    inputs: int
    entries: int  # 0 for a block that is taken whole, and is there anyway


@dataclass(frozen=True)
class CountedReach:
    """A reach whose stages have counts in the place of rows.

    Attributes:
        reach: its stages have no parts.
        parts: the sizes of these, by stage.
    """

    reach: Reach
    parts: tuple[tuple[PartSize, ...], ...]

    def within(self, most: int) -> CountedReach | None:
        """The same holding at most so many rows, as :func:`gpnn.engine.reach.within` has it."""
        found = within(self.reach, most)
        return None if found is None else replace(self, reach=found)

    @property
    def num_bytes(self) -> float:
        """Bytes of the arrays of all parts, which are kept with the plan."""
        _, *later = self.parts
        own = sum(_ENTRY * each.entries + _ROW * (each.inputs + each.rows) for each in _some(*self.parts))
        return float(own + sum(_PLACE * size.inputs for stage in later for size in stage))


def count_reach(plan: Plan, rows: Tensor) -> CountedReach | None:
    """What :func:`gpnn.engine.reach.reach_of` will find for plan rows, `[n]`; None: a pass over all rows, or unknown.

    It reads the edges into rows that blocks take in part, and those of blocks taken whole but in the first phase.
    """
    steps = [each for number, phases in enumerate(plan.rounds) for each in round_steps(phases, number)]
    phases = [phase for phase, _ in steps if isinstance(phase, LoweredRows)]
    if len(phases) < len(steps):
        return None
    needed = torch.zeros(plan.num_nodes, dtype=torch.bool, device=phases[0].layout.ptr.device)
    needed[rows.to(needed.device)] = True
    stages, sizes = [], []
    for position in reversed(range(len(steps))):
        previous = None if position == 0 else phases[position - 1]
        stage, found, needed = _stage(phases[position], steps[position][1], needed, previous)
        stages.append(stage)
        sizes.append(found)
    reach = worthwhile(Reach(tuple(reversed(stages))), plan, len(rows))
    return None if reach is None else CountedReach(reach, tuple(reversed(sizes)))


class CountedParts(NamedTuple):
    """The parts in which blocks of a phase take their last steps.

    Attributes:
        num_bytes: of the arrays of all parts, which are made once and kept with the plan.
        whole_steps: the most steps that a block takes whole, before its parts.
        largest: for each step that is taken by parts, the last first, the most that one writes, reads and has entries.
    """

    num_bytes: float
    whole_steps: int
    largest: tuple[PartSize, ...]


def count_parts(plan: Plan, rows: Tensor, part_edges: float) -> CountedParts | None:
    """The parts in which blocks of the last phase take their last steps for plan rows, `[n]`, on a GPU; None: unknown.

    `part_edges` is that of the runner.
    """
    phase = plan.rounds[-1][-1]
    if not isinstance(phase, LoweredRows) or not phase.independent:
        return None
    rows, total, whole_steps = rows.to(phase.layout.ptr.device).sort().values, 0.0, 0
    largest = [PartSize(0, 0, 0)] * phase.repeat
    per_entry = _ENTRY + (_WEIGHT if phase.weighted else 0)
    for number, (first, last) in enumerate(pairwise(phase.layout.ends)):
        ends = torch.searchsorted(rows, torch.tensor([first, last], device=rows.device)).tolist()
        wanted, position = rows[slice(*ends)], 0
        senders, few = _senders(phase, wanted, first, last), 0 < len(wanted) < last - first
        while few:
            read = torch.zeros(plan.num_nodes, dtype=torch.bool, device=rows.device)
            read[wanted], read[senders] = True, True
            size = PartSize(len(wanted), int(read.sum()), len(senders))
            total += per_entry * size.entries + _ROW * (size.inputs + size.rows)
            largest[position] = PartSize(*map(max, largest[position], size))
            position += 1
            if position == phase.repeat:
                break
            wanted = read[first:last].nonzero().flatten() + first
            senders = _senders(phase, wanted, first, last)
            edges = len(senders) / max(1, _num_entries(phase, number))
            few = is_part(len(wanted), last - first, edges, part_edges)
        if len(wanted):
            whole_steps = max(whole_steps, phase.repeat - position)
    return CountedParts(total, whole_steps, tuple(size for size in largest if size.rows))


def _some(*stages: tuple[PartSize, ...]) -> Iterator[PartSize]:
    """The parts of blocks that are not taken whole."""
    return (size for stage in stages for size in stage if size.entries)


def _stage(
    phase: LoweredRows, steps: list[Step], after: Tensor, previous: LoweredRows | None
) -> tuple[Stage, tuple[PartSize, ...], Tensor]:
    """The stage of a phase given which rows are needed after it, bool `[N]`; its parts; which are needed before it."""
    updates, read = _updates(phase), torch.zeros_like(after)
    sizes = tuple(_parts(phase, after, updates, read, marks=previous is not None))
    passed = torch.zeros_like(after) if updates is None else after & ~updates
    before = torch.ones_like(after) if previous is None else _stored(read | passed, previous)
    around, num_before, num_rows = bool(passed.any()), int(before.sum()), int(after.sum())
    some = around and previous is not None
    num_inputs, num_read = sum(size.inputs for size in sizes), int(read.sum()) if some else num_before
    places = slice(0, int(passed.sum()))
    stage = Stage(
        steps,
        slice(0, num_read) if some else None,
        (places, places) if around else None,
        (),
        num_before,
        num_rows,
        sum(size.rows for size in sizes),
        num_inputs,
        apart=previous is not None and num_inputs == num_read,
        in_place=some and torch.equal(before, after),
    )
    return stage, sizes, before


def _parts(
    phase: LoweredRows, after: Tensor, updates: Tensor | None, read: Tensor, *, marks: bool
) -> Iterator[PartSize]:
    """The parts that write needed rows; with `marks`, what they read is set in `read`, bool `[N]`."""
    crossings = phase.phase.crossings
    for number, (first, last) in enumerate(pairwise(phase.layout.ends)):
        own = slice(first, last)
        wanted = after[own] if updates is None else after[own] & updates[own]
        count, num_rows = int(wanted.sum()), last - first if updates is None else int(updates[own].sum())
        if not count:
            continue
        limit = WHOLE_SPARSE if _num_entries(phase, number) <= SPARSE * num_rows else WHOLE
        whole = count > limit * num_rows
        if whole:
            wanted = torch.ones_like(wanted) if updates is None else updates[own]
        rows = wanted.nonzero().flatten() + first
        if whole and not marks and crossings is not None:
            yield PartSize(num_rows, num_rows + (int(crossings.halo[number]) if phase.kind != "inside" else 0), 0)
            continue
        seen, senders = torch.zeros_like(read), _senders(phase, rows, first, last)
        seen[rows] = True
        seen[senders] = True
        if marks:
            read |= seen
        yield PartSize(len(rows), int(seen.sum()), 0 if whole else len(senders))


def _senders(phase: LoweredRows, rows: Tensor, first: int, last: int) -> Tensor:
    """The plan row of each sender of a phase's edges into rows of a range, `[e]`."""
    layout = phase.layout
    _, entry = row_entries(layout.ptr, rows if layout.order is None else layout.order[rows])
    sender = layout.col[entry] if layout.place is None else layout.place[layout.col[entry]]
    if phase.kind in ("all", "held"):
        return sender.long()
    crosses = (sender < first) | (sender >= last)
    return sender[crosses if phase.kind == "cut" else ~crosses].long()


def _num_entries(phase: LoweredRows, number: int) -> int:
    """Edges of the block of that number."""
    crossings, (ends, ptr) = phase.phase.crossings, (phase.layout.ends, phase.layout.ptr)
    if crossings is None:
        return int(ptr[ends[number + 1]] - ptr[ends[number]])
    inside, cut = int(crossings.inside[number]), int(crossings.cut[number])
    return {"inside": inside, "cut": cut}.get(phase.kind, inside + cut)


def _updates(phase: LoweredRows) -> Tensor | None:
    """Which plan rows a phase writes, bool `[N]`; None: all."""
    spec, crossings, order = phase.phase.spec, phase.phase.crossings, phase.layout.order
    if crossings is None or (phase.kind != "cut" and spec.update == "members"):
        return None
    inside, cut = RECEIVES_INSIDE, RECEIVES_CUT | (SENDS_CUT if spec.update == "members" else 0)
    roles = crossings.roles.to(phase.layout.ptr.device)
    found = (roles & (inside if phase.kind == "inside" else cut)) != 0
    return found if order is None else found[order]


def _stored(before: Tensor, previous: AnyPhase) -> Tensor:
    """The rows that are stored where some are needed, bool `[N]`: all of a block, or of all, where nearly all are."""
    assert isinstance(previous, LoweredRows)
    updates = _updates(previous)
    for first, last in pairwise(previous.layout.ends):
        own = slice(first, last)
        written = None if updates is None else updates[own]
        found, size = (before[own], last - first) if written is None else (before[own] & written, int(written.sum()))
        if size and int(found.sum()) > NEARLY * size:
            before[own] = True if written is None else before[own] | written
    if int(before.sum()) > ALMOST * len(before):
        before[:] = True
    return before
