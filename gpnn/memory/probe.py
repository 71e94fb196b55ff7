"""probe: what a training pass keeps of a node, counted on a few nodes, whatever the model is made of."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.engine import CellLike, Plan, Step, lower
from gpnn.graph import Graph
from gpnn.nn import GPNN, MaskKey
from gpnn.nn.cell import Cell, CellBank, kernel_bytes
from gpnn.nn.encoded_source import widened
from gpnn.schedule import synchronous

PROBE_ROWS = 64


class NodeBytes(NamedTuple):
    """Bytes of one node.

    Attributes:
        state: of its working state.
        by_step: that autograd keeps when one step updates it, its new state included.
        by_model: that autograd keeps outside the propagation: encoder, dropout, readout and head.
        after: of `by_model`, what comes after the propagation and is free again when that is differentiated.
        widest: of the widest activation outside the propagation.
        kernel: as in :class:`gpnn.memory.runner.StateBytes`.
        chunk: that encoder and head take of it while its chunk of rows is computed again; 0 where they keep all.
    """

    state: float
    by_step: float
    by_model: float
    after: float
    widest: float
    kernel: Callable[[int], float] | None
    chunk: float = 0.0


def probe(model: GPNN, x: Tensor | None, plan: Plan, *, recomputes: bool = False) -> NodeBytes:
    """What a training pass keeps of a node, counted on a few, whatever the model is made of; nothing of it changes.

    Args:
        model: at any weights.
        x: features, dense or sparse, or None.
        plan: the lowered schedule.
        recomputes: whether the runner computes again what it does not keep (:func:`gpnn.engine.recomputes`).
    """
    small, few = _ring(plan), None if x is None else _few_rows(x).to(plan.device)
    few = few if few is None or few.dtype == torch.int8 else widened(few)
    outside, standing = _outside(model, few, small, recomputes=False)
    inner = 0.0
    if recomputes:
        everything, (outside, standing) = outside, _outside(model, few, small, recomputes=True)
        inner = _sum(everything) - _sum(outside)
    assert standing.state is not None
    working = standing.state.detach().requires_grad_()
    initial = None if standing.initial is None else standing.initial.detach().requires_grad_()
    step, block = Step(0, "inside", 0, initial), small.rounds[0][0].whole
    known = [working, *([] if initial is None else [initial])]
    inside = _saved(model, lambda: model.masked_cell(small, MaskKey(0)).advance(block, working, step), known)
    cell = model.cell.cells[model.cell.choose(step)] if isinstance(model.cell, CellBank) else model.cell
    return NodeBytes(
        state=working.shape[1] * working.element_size(),
        by_step=_sum(inside),
        by_model=_sum(outside),
        after=sum(size for size, after in outside if after),
        widest=max((size for size, _ in outside), default=0.0),
        kernel=kernel_bytes(cell, block, working) if isinstance(cell, Cell) else None,
        chunk=2 * inner,  # with as much again for gradients
    )


def _outside(
    model: GPNN, x: Tensor | None, plan: Plan, *, recomputes: bool
) -> tuple[list[tuple[float, bool]], _StandStill]:
    """What is kept outside the propagation, and the runner that stood in for it."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    standing = _StandStill(recomputes)
    whole = lambda: _twin(model, standing)(x, plan, key=MaskKey(0))  # noqa: E731
    saved = _saved(model, whole, [] if x is None else [x], when=lambda: standing.state is not None)
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    return saved, standing


def _sum(saved: list[tuple[float, bool]]) -> float:
    return sum(size for size, _ in saved)


def _twin(model: GPNN, runner: _StandStill) -> GPNN:
    """The same model, parameters shared, with another runner and embeddings of a few nodes."""
    twin = copy.copy(model)
    twin._modules = dict(model._modules)
    if model.embedding is not None:
        twin._modules["embedding"] = _FewRows(model.embedding.weight)
    twin.runner, twin.training = runner, True
    return twin


def _saved(
    model: nn.Module, call: Callable[[], Tensor], known: list[Tensor], when: Callable[[], bool] = lambda: False
) -> list[tuple[float, bool]]:
    """Bytes per row of each tensor that `call` keeps or returns, and `when()` then; not parameters, `known`."""
    seen: dict[int, tuple[Tensor, bool]] = {}

    def keep(tensor: Tensor) -> Tensor:
        tensor = tensor.detach()  # one of autograd's would keep its graph, which keeps this function, for ever
        if tensor.layout == torch.strided:
            seen.setdefault(tensor.untyped_storage().data_ptr(), (tensor, when()))
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        keep(call())
    aside = [tensor for tensor in (*model.parameters(), *known) if tensor.layout == torch.strided]
    for tensor in aside:
        seen.pop(tensor.untyped_storage().data_ptr(), None)
    large = ((each, flag) for each, flag in seen.values() if each.dim() and len(each) == PROBE_ROWS)
    return [(each.untyped_storage().nbytes() / PROBE_ROWS, flag) for each, flag in large]


def _ring(plan: Plan) -> Plan:
    """A ring of a few nodes with the plan's edge types and rounds."""
    nodes, kinds = torch.arange(PROBE_ROWS), plan.num_edge_types
    edge_type = torch.arange(kinds).repeat_interleave(PROBE_ROWS) if kinds > 1 else None
    ring = Graph(nodes.repeat(kinds), nodes.roll(1).repeat(kinds), PROBE_ROWS, edge_type)
    return lower(ring, synchronous(ring, max(1, plan.num_rounds)), plan.device)


def _few_rows(x: Tensor) -> Tensor:
    """A few rows of features, repeated where there are not enough."""
    rows = torch.arange(PROBE_ROWS) % x.shape[0]
    if x.layout == torch.strided:
        return x[rows.to(x.device)].clone()
    ptr, columns, values = x.crow_indices(), x.col_indices(), x.values()
    pieces = [slice(int(ptr[row]), int(ptr[row + 1])) for row in rows]
    lengths = pointers([piece.stop - piece.start for piece in pieces])
    columns, values = (torch.cat([each[piece] for piece in pieces]).cpu() for each in (columns, values))
    return csr_tensor(lengths, columns.numpy(), values.numpy(), (PROBE_ROWS, x.shape[1]))


class _StandStill:
    """A runner that sends nothing, and remembers what it was given."""

    def __init__(self, recomputes: bool) -> None:
        self.recomputes = recomputes
        self.state: Tensor | None = None
        self.initial: Tensor | None = None

    def __call__(
        self, cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        self.state, self.initial = state.detach(), None if initial is None else initial.detach()
        return [state.clone() for _ in range(plan.num_rounds)] if collect else [state]


class _FewRows(nn.Module):
    """The first rows of an embedding, for a graph of a few nodes."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.few = weight.detach()[torch.arange(PROBE_ROWS) % len(weight)].requires_grad_()

    def forward(self, num_nodes: int) -> Tensor:
        return self.few
