"""lower_csr: a schedule over a symmetric graph in CSR form, lowered where its arrays lie.

For graphs whose edge lists are too long for Python's own memory or for one CPU thread: nothing of the size of the edges
is made besides the plan's own arrays, and those of the inside edges serve as their own transpose.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.engine.block import Block
from gpnn.engine.lowered_phase import BuiltPhase
from gpnn.engine.lowered_rows import ROW_RULES
from gpnn.engine.plan import Plan
from gpnn.engine.row_blocks import RowLayout
from gpnn.schedule import PhaseSpec


def lower_csr(
    ptr: Tensor,
    col: Tensor,
    order: Tensor,
    part_ptr: Tensor,
    phases: Sequence[PhaseSpec],
    *,
    rounds: int,
    normalization: str = "phase",
) -> Plan:
    """Rounds of these phases, ready to run in plan order; a part's receivers are a block.

    Args:
        ptr: where each node's neighbours begin, `[N + 1]`.
        col: the neighbours, `[E]`; the graph must be symmetric, multiplicities included.
        order: the nodes grouped by part: plan row r is node `order[r]`, `[N]`.
        part_ptr: part p owns plan rows `part_ptr[p]:part_ptr[p + 1]`, `[K + 1]`.
        phases: of one round: :func:`gpnn.schedule.partitioned_phases`, :func:`gpnn.schedule.held_cut_phases` or
            :func:`gpnn.schedule.synchronous_phases`.
        rounds: number of rounds T.
        normalization: "phase" or "graph", as in :mod:`gpnn.engine.normalize`; messages are not weighted otherwise.

    Raises:
        ValueError: when the rule is unknown, there is no phase, or the arrays do not fit each other.

    >>> import torch
    >>> from gpnn.schedule import partitioned_phases, synchronous_phases
    >>> ring = torch.arange(0, 9, 2), torch.tensor([1, 3, 0, 2, 1, 3, 0, 2])
    >>> parts = torch.arange(4), torch.tensor([0, 2, 4])
    >>> [lower_csr(*ring, *parts, each, rounds=3).num_updates for each in (partitioned_phases(), synchronous_phases())]
    [24, 12]
    """
    check_choice("normalization", normalization, ROW_RULES)
    check_count("rounds", rounds, at_least=1)
    if not phases:
        raise ValueError("`phases` must hold at least one phase. Got none.")
    num_nodes, ends = ptr.numel() - 1, part_ptr.tolist()
    if order.numel() != num_nodes or ends[0] != 0 or ends[-1] != num_nodes:
        raise ValueError(
            f"`order` and `part_ptr` must cover the {num_nodes} nodes. Got {order.numel()} and {ends[-1]}."
        )
    blocks: list[list[Block]] = [[] for _ in phases]
    digest = num_held = 0
    for piece in RowLayout(ptr, col, True, order, tuple(ends)).pieces():
        digest += piece.digest()
        num_held += int(piece.crosses.sum())
        for spec, found in zip(phases, blocks):
            block = piece.block(spec, normalization)
            found += [] if block is None else [block]
    built = (_phase(spec, tuple(found), num_held) for spec, found in zip(phases, blocks) if found)
    return Plan(
        rounds=(tuple(built),) * rounds,
        order=None,
        device=ptr.device,
        normalization=normalization,
        num_nodes=num_nodes,
        num_virtual=0,
        num_edge_types=1,
        source=None,
        edge_digest=digest & 0xFFFFFFFFFFFFFFFF,
    )


def _phase(spec: PhaseSpec, blocks: tuple[Block, ...], num_crossing: int) -> BuiltPhase:
    independent = spec.kind in ("inside", "held") or len(blocks) == 1
    num_held = num_crossing if spec.kind == "held" else 0
    return BuiltPhase(spec.kind, blocks, independent, spec.repeat, spec.closing, spec.kind == "all", num_held)
