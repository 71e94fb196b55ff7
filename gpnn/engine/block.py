"""Block: a piece of a phase that can be computed alone, from the state rows that it reads."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gpnn.csr import compress, pointers, row_entries
from gpnn.engine.normalize import symmetric_weight
from gpnn.graph import Graph
from gpnn.kernels import Operator


@dataclass(frozen=True, eq=False)
class Block:
    """One self-contained step: it reads the state rows `inputs` and writes the first `num_rows` of them.

    The inputs beyond the written rows keep their values while the step is repeated: senders that do not update, and
    copies of senders whose messages are held.

    Attributes:
        inputs: plan rows that the step reads, the written ones first, `[m]`; a slice where they are contiguous.
        num_rows: how many rows the step writes, n.
        operators: for each edge type, the adjacency with normalised weights, `[n, m]`.
        raw_weights: for each edge type, the graph's own weights in the operator's order, `[e]`, or None: all one.
        edges: for each edge type, the ids of the edges in the operator's order, int32 where it fits, `[e]`, on the CPU;
            None where they were freed: what is by edge id elsewhere is then by type and receiver.
        diagonal: weight of each written row's message to itself, float64, `[n]`, or None.
        degree: degrees of the inputs that the weights of a symmetric rule follow from, float64, `[m]`, or None.
    """

    inputs: Tensor | slice
    num_rows: int
    operators: tuple[Operator, ...]
    raw_weights: tuple[Tensor | None, ...]
    edges: tuple[Tensor, ...] | None
    diagonal: Tensor | None
    degree: Tensor | None = None

    @property
    def num_inputs(self) -> int:
        return self.inputs.stop - self.inputs.start if isinstance(self.inputs, slice) else self.inputs.numel()

    @property
    def num_entries(self) -> int:
        """How many edges of all types it has."""
        return sum(operator.num_entries for operator in self.operators)

    @cached_property
    def rows(self) -> Tensor | slice:
        """Plan rows that the step writes, `[n]`; a slice where they are contiguous."""
        if isinstance(self.inputs, slice):
            return slice(self.inputs.start, self.inputs.start + self.num_rows)
        return as_slice(self.inputs[: self.num_rows])

    @property
    def others(self) -> Tensor | slice:
        """Plan rows that the step reads besides those that it writes, `[m − n]`, distinct."""
        if isinstance(self.inputs, slice):
            return slice(self.inputs.start + self.num_rows, self.inputs.stop)
        return self.inputs[self.num_rows :]

    def read(self, state: Tensor) -> Tensor:
        """The rows of `state` that the step reads, `[m, d]`."""
        if isinstance(self.inputs, Tensor):
            return state.index_select(0, self.inputs)
        return state if self.num_inputs == len(state) else state[self.inputs]  # a slice's gradient is a padded copy

    def operators_for(self, dtype: torch.dtype) -> tuple[Operator, ...]:
        """`operators` with weights as exact as states of this type need.

        What stands once per row is kept in float64, and rounded once for narrower states. Weights of edges are kept in
        the graph's own type, else in float32, and are computed in float64 when states of that type come.
        """
        return self._exact_operators if dtype == torch.float64 else self._narrow_operators

    @cached_property
    def _narrow_operators(self) -> tuple[Operator, ...]:
        return tuple(operator.narrowed() for operator in self.operators)

    @cached_property
    def _exact_operators(self) -> tuple[Operator, ...]:
        return tuple(self._exact(operator, raw) for operator, raw in zip(self.operators, self.raw_weights))

    def _exact(self, operator: Operator, raw: Tensor | None) -> Operator:
        if self.degree is None or operator.weight is None or operator.weight.dtype == torch.float64:
            return operator
        given = torch.ones_like(operator.weight) if raw is None else raw
        ends = self.degree[operator.col], self.degree[operator.rows()]
        return replace(operator, weight=symmetric_weight(given.double(), *ends))

    @cached_property
    def raw_operators(self) -> tuple[Operator, ...]:
        """For each edge type, the adjacency with the graph's own weights, `[n, m]`."""
        return tuple(operator.with_weight(raw) for operator, raw in zip(self.operators, self.raw_weights))

    @cached_property
    def edge_index(self) -> Tensor:
        """Sender and receiver of each edge as positions in `inputs`, int64, `[2, e]`, by edge id."""
        pairs = [torch.stack([operator.col.long(), operator.rows()]) for operator in self.operators]
        return self._by_id(torch.cat(pairs, dim=1))

    @cached_property
    def edge_type(self) -> Tensor:
        """The type of each edge of `edge_index`, int64, `[e]`."""
        device = self.operators[0].ptr.device
        counts = torch.tensor([operator.num_entries for operator in self.operators], device=device)
        return self._by_id(torch.repeat_interleave(torch.arange(len(counts), device=device), counts))

    @cached_property
    def edge_weight(self) -> Tensor | None:
        """The graph's own weight of each edge of `edge_index`, `[e]`, or None: all one."""
        weights = [weight for weight in self.raw_weights if weight is not None]
        return self._by_id(torch.cat(weights)) if weights else None

    @property
    def edge_id(self) -> Tensor:
        """The id of each edge of `edge_index`, int64, `[e]`, rising, on the CPU."""
        if self.edges is None:
            raise ValueError("A plan that was built holds no edge ids. Ask the plan that `lower` gave.")
        return torch.cat(self.edges).long().sort().values

    def part(self, rows: Tensor) -> BlockPart:
        """The same step for some of the rows that it writes, distinct, `[w]`.

        Made where the block lies, and kept as long as `rows` is.
        """
        if rows not in self._parts:
            self._parts[rows] = _take_part(self, rows)
        return self._parts[rows]

    @cached_property
    def _parts(self) -> MutableMapping[Tensor, BlockPart]:
        return WeakTensorKeyDictionary()

    def _by_id(self, values: Tensor) -> Tensor:
        """`values` of the operators' entries one after the other, `[…, e]`, by edge id."""
        return values if self.edges is None else values[..., torch.cat(self.edges).argsort().to(values.device)]


class BlockPart(NamedTuple):
    """The part of a block that writes some of its rows.

    Attributes:
        block: the step; it reads `own`, then `others`.
        own: which of the rows that the whole block writes it reads, those that it writes first, `[k]`.
        others: positions among the whole block's inputs of those that stay as they are, `[m − k]`.
        edges_before: of the whole block's edges, the share into `own`: what the step before reads.
    """

    block: Block
    own: Tensor
    others: Tensor
    edges_before: float


def _take_part(block: Block, rows: Tensor) -> BlockPart:
    place = torch.full((block.num_inputs,), -1, dtype=torch.int32, device=rows.device)
    place[rows] = torch.arange(len(rows), dtype=torch.int32, device=rows.device)
    taken = [row_entries(operator.ptr, rows) for operator in block.operators]
    senders = torch.cat([operator.col[entry] for operator, (_, entry) in zip(block.operators, taken)])
    others = senders[place[senders] < 0].unique().long()
    place[others] = torch.arange(len(rows), len(rows) + len(others), dtype=torch.int32, device=rows.device)
    inputs = narrowed(torch.cat([rows, others]), block.num_inputs)

    def pick(values: Tensor | None, at: Tensor) -> Tensor | None:
        return None if values is None else values[at]

    operators = []
    for operator, (counts, entry) in zip(block.operators, taken):
        col, weight = place[operator.col[entry]], pick(operator.weight, entry)
        back = transposed(counts, col, len(inputs), with_entry=weight is not None)
        scales = pick(operator.row_scale, rows), pick(operator.col_scale, inputs)
        shape, ptr = (len(rows), len(inputs)), row_pointers(counts, len(col))
        operators.append(Operator(shape, ptr, col, weight, *back, *scales))
    raw = tuple(pick(weight, entry) for weight, (_, entry) in zip(block.raw_weights, taken))
    own = pick(block.diagonal, rows), pick(block.degree, inputs)
    num_own = len(rows) + int((others < block.num_rows).sum())  # they rise
    made = Block(inputs, len(rows), tuple(operators), raw, None, *own)
    read = inputs[:num_own]
    num_before = sum(int((operator.ptr[read + 1] - operator.ptr[read]).sum()) for operator in block.operators)
    return BlockPart(made, read, inputs[num_own:], num_before / max(1, block.num_entries))


def transposed(counts: Tensor, col: Tensor, num_columns: int, *, with_entry: bool) -> tuple[Tensor, Tensor, Tensor]:
    """`t_ptr`, `t_row` and `t_entry` of an :class:`Operator`, on its device; the last empty unless it is wanted.

    Args:
        counts: entries of each row, `[R]`.
        col: their columns, row by row, int32, `[E]`.
        num_columns: number of columns C.
        with_entry: whether entries have weights.
    """
    order = col.argsort(stable=True)
    row = torch.repeat_interleave(torch.arange(len(counts), dtype=torch.int32, device=col.device), counts)
    entry = order.int() if with_entry else col[:0]
    return row_pointers(torch.bincount(col, minlength=num_columns), len(col)), row[order], entry


def row_pointers(counts: Tensor, num_entries: int) -> Tensor:
    """Where each row begins, and the end of the last, `[R + 1]`, from the rows' lengths, `[R]`, and their sum."""
    return narrowed(pointers(counts), num_entries + 1)


def narrowed(values: Tensor, bound: int) -> Tensor:
    """Whole numbers below a bound in int32 where that fits, on a GPU alone: a CPU's kernels are compiled for int64."""
    return values.int() if values.is_cuda and bound <= 2**31 else values


def as_slice(rows: Tensor) -> Tensor | slice:
    """The rows, as a slice where they are contiguous."""
    start = int(rows[0]) if len(rows) else 0
    contiguous = torch.arange(start, start + len(rows), dtype=rows.dtype, device=rows.device)
    return slice(start, start + len(rows)) if torch.equal(rows, contiguous) else rows


@dataclass(frozen=True, eq=False)
class Messages:
    """The edges of a phase in plan numbering: what blocks are cut from.

    Attributes:
        nodes: plan rows that update, `[n]`.
        src: plan row of each sender, `[e]`.
        dst: plan row of each receiver, `[e]`.
        edges: id of each edge in the schedule's graph, `[e]`.
        weight: normalised weight of each edge, `[e]`, or None: the graph's own.
        row_scale: factor of all messages to each updating node, float64, `[n]`, or None: all one.
        raw_weight: the graph's own weight of each edge, `[e]`, or None: all one.
        edge_type: type of each edge, `[e]`, or None: one type.
        diagonal: weight of each updating node's message to itself, float64, `[n]`, or None.
        degrees: of each updating node, `[n]`, and of each edge's sender, `[e]`, float64, where the weights follow from
            them, or None.
        held: which edges send what their senders had at the start of the phase, bool, `[e]`, or None: none.
    """

    nodes: Tensor
    src: Tensor
    dst: Tensor
    edges: Tensor
    weight: Tensor | None
    row_scale: Tensor | None
    raw_weight: Tensor | None
    edge_type: Tensor | None
    diagonal: Tensor | None
    degrees: tuple[Tensor, Tensor] | None
    held: Tensor | None = None

    def select(self, nodes: Tensor | slice, edges: Tensor | slice) -> Messages:
        """The part that updates `nodes` by `edges` (positions)."""

        def pick(values: Tensor | None) -> Tensor | None:
            return None if values is None else values[edges]

        return Messages(
            self.nodes[nodes],
            self.src[edges],
            self.dst[edges],
            self.edges[edges],
            pick(self.weight),
            None if self.row_scale is None else self.row_scale[nodes],
            pick(self.raw_weight),
            pick(self.edge_type),
            None if self.diagonal is None else self.diagonal[nodes],
            None if self.degrees is None else (self.degrees[0][nodes], self.degrees[1][edges]),
            pick(self.held),
        )


class BlockBuilder:
    """Cuts blocks out of messages; it keeps one scratch array of the size of the graph between them."""

    def __init__(self, graph: Graph, device: torch.device | str) -> None:
        self.num_edges, self.num_edge_types = graph.num_edges, graph.num_edge_types
        self.device = device
        self._position = torch.full((graph.num_nodes,), -1, dtype=torch.int64)  # where each plan row stands in a block

    def build(self, messages: Messages) -> Block:
        """The block that does all of `messages`."""
        inputs = self._inputs(messages)
        self._position[inputs] = torch.arange(len(inputs))
        src, dst = self._position[messages.src], self._position[messages.dst]
        self._position[inputs] = -1
        if messages.held is not None:
            inputs, src = _copy_held(messages, inputs, src)
        shape = (messages.nodes.numel(), len(inputs))
        pieces = [self._operator(messages, src, dst, chosen, shape) for chosen in self._by_type(messages)]
        operators, raw_weights, edges = zip(*pieces)
        diagonal = None if messages.diagonal is None else messages.diagonal.to(self.device)
        degree = self._degree(messages, src, len(inputs))
        compact = as_slice(inputs)
        compact = compact if isinstance(compact, slice) else compact.to(self.device)
        return Block(compact, shape[0], operators, raw_weights, edges, diagonal, degree)

    def _degree(self, messages: Messages, src: Tensor, num_inputs: int) -> Tensor | None:
        """The degree of each input, `[m]`, where the weights follow from it; `src` are positions among the inputs."""
        if messages.degrees is None:
            return None
        of_node, of_sender = messages.degrees
        degree = of_node.new_empty(num_inputs)
        degree[src] = of_sender
        degree[: len(of_node)] = of_node
        return degree.to(self.device)

    def _by_type(self, messages: Messages) -> tuple[Tensor | None, ...]:
        """The positions of the edges of each type, in order; None: all of them."""
        if messages.edge_type is None:
            return (None,)
        counts = torch.bincount(messages.edge_type, minlength=self.num_edge_types)
        return messages.edge_type.argsort(stable=True).split(counts.tolist())

    def _inputs(self, messages: Messages) -> Tensor:
        """The updating nodes, then the senders that do not update, `[m]`."""
        self._position[messages.nodes] = 0
        senders = messages.src[self._position[messages.src] < 0].unique()
        self._position[messages.nodes] = -1
        return torch.cat([messages.nodes, senders])

    def _operator(
        self, messages: Messages, src: Tensor, dst: Tensor, chosen: Tensor | None, shape: tuple[int, int]
    ) -> tuple[Operator, Tensor | None, Tensor]:
        if chosen is not None:
            src, dst = src[chosen], dst[chosen]
        rows = compress(dst.numpy(), src.numpy(), shape[0])
        assert rows.edge is not None
        order = torch.from_numpy(rows.edge).long()
        order = order if chosen is None else chosen[order]

        def arrange(values: Tensor | None) -> Tensor | None:
            return None if values is None else values[order].to(self.device)

        ptr, col = torch.from_numpy(rows.ptr), torch.from_numpy(rows.index)
        raw_weight = arrange(messages.raw_weight)
        weight = raw_weight if messages.weight is None else arrange(messages.weight)
        operator = replace(Operator.from_csr(ptr, col, weight, shape), row_scale=messages.row_scale).to(self.device)
        edges = messages.edges[order].to(torch.int32 if self.num_edges < 2**31 else torch.int64)
        return operator, raw_weight, edges


def _copy_held(messages: Messages, inputs: Tensor, src: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs with a copy of each held sender that updates, after all others, and the senders' positions among them."""
    assert messages.held is not None
    copied = messages.held & (src < messages.nodes.numel())
    positions, copy = src[copied].unique(return_inverse=True)
    src[copied] = len(inputs) + copy
    return torch.cat([inputs, inputs[positions]]), src
