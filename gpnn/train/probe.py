"""What autograd keeps of a node, counted on a few nodes: a model tells its memory itself, whatever it is made of."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gpnn.data.sparse import csr_tensor
from gpnn.engine import CellLike, Plan, Step, lower
from gpnn.graph import Graph
from gpnn.nn import GPNN, Draw
from gpnn.schedule import synchronous

PROBE_ROWS = 64


class Kept(NamedTuple):
    """Bytes of one node.

    Attributes:
        state: of its working state.
        by_step: that autograd keeps when one step updates it, its new state included.
        by_model: that autograd keeps outside the propagation: encoder, dropout, readout and head.
    """

    state: float
    by_step: float
    by_model: float


def probe(model: GPNN, x: Tensor | None, plan: Plan) -> Kept:
    """What a training pass of `model` keeps of a node; neither its weights nor its running averages change."""
    small, few = _ring(plan), None if x is None else _few_rows(x).to(plan.device)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    standing = _StandStill()
    by_model = _count(model, lambda: _twin(model, standing)(few, small, draw=Draw(0)), [] if few is None else [few])
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    assert standing.state is not None
    working = standing.state.detach().requires_grad_()
    initial = None if standing.initial is None else standing.initial.detach().requires_grad_()
    step, known = Step(0, "inside", 0, initial), [working, *([] if initial is None else [initial])]
    by_step = _count(model, lambda: model.cell.advance(small.rounds[0][0].whole, working, step), known)
    return Kept(working.shape[1] * working.element_size(), by_step, by_model)


def _twin(model: GPNN, runner: _StandStill) -> GPNN:
    """The same model, parameters shared, with another runner and embeddings of a few nodes."""
    twin = copy.copy(model)
    twin._modules = dict(model._modules)
    if model.embedding is not None:
        twin._modules["embedding"] = _FewRows(model.embedding.weight)
    twin.runner, twin.training = runner, True
    return twin


def _count(model: nn.Module, call: Callable[[], Tensor], known: list[Tensor]) -> float:
    """Bytes a row of the distinct tensors that `call` keeps or gives, parameters and `known` ones aside."""
    seen: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:
            seen[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        keep(call())
    aside = [tensor for tensor in (*model.parameters(), *known) if tensor.layout == torch.strided]
    for tensor in aside:
        seen.pop(tensor.untyped_storage().data_ptr(), None)
    large = (each.untyped_storage().nbytes() for each in seen.values() if each.dim() and len(each) == PROBE_ROWS)
    return sum(large) / PROBE_ROWS


def _ring(plan: Plan) -> Plan:
    """A ring of a few nodes with the plan's edge types and rounds."""
    nodes, kinds = torch.arange(PROBE_ROWS), plan.num_edge_types
    edge_type = torch.arange(kinds).repeat_interleave(PROBE_ROWS) if kinds > 1 else None
    ring = Graph(nodes.repeat(kinds), nodes.roll(1).repeat(kinds), PROBE_ROWS, edge_type)
    return lower(ring, synchronous(ring, plan.num_rounds), plan.device)


def _few_rows(x: Tensor) -> Tensor:
    """A few rows of features, repeated where there are not enough."""
    rows = torch.arange(PROBE_ROWS) % x.shape[0]
    if x.layout == torch.strided:
        return x[rows.to(x.device)].clone()
    ptr, columns, values = x.crow_indices(), x.col_indices(), x.values()
    pieces = [slice(int(ptr[row]), int(ptr[row + 1])) for row in rows]
    lengths = torch.tensor([0, *(piece.stop - piece.start for piece in pieces)]).cumsum(0)
    columns, values = (torch.cat([each[piece] for piece in pieces]).cpu() for each in (columns, values))
    return csr_tensor(lengths.numpy(), columns.numpy(), values.numpy(), (PROBE_ROWS, x.shape[1]))


class _StandStill:
    """A runner that sends nothing, and remembers what it was given."""

    def __init__(self) -> None:
        self.state: Tensor | None = None
        self.initial: Tensor | None = None

    def __call__(
        self, cell: CellLike, plan: Plan, state: Tensor, *, initial: Tensor | None, collect: bool
    ) -> list[Tensor]:
        self.state, self.initial = state, initial
        return [state.clone() for _ in range(plan.num_rounds)] if collect else [state]


class _FewRows(nn.Module):
    """The first rows of an embedding, for a graph of a few nodes."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.few = weight.detach()[torch.arange(PROBE_ROWS) % len(weight)].requires_grad_()

    def forward(self, num_nodes: int) -> Tensor:
        return self.few
