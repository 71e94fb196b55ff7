"""Edges: their checks, the distinct ones, and a digest that detects another graph or one that was changed in place.

The digest sums a 64-bit hash over the edges, so that it can be computed piece by piece, on any device. It detects
mistakes; it is not a cryptographic digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gpnn.csr import slices

if TYPE_CHECKING:
    from gpnn.graph.graph import Graph


def check_structure(graph: Graph) -> None:
    """Raise ValueError unless the arrays agree in length and every id names a node."""
    if graph.src.numel() != graph.dst.numel():
        raise ValueError(f"`src` and `dst` must be equally long. Got {graph.src.numel()} and {graph.dst.numel()}.")
    for name, ids in (("src", graph.src), ("dst", graph.dst)):
        check_ids(f"`{name}` must hold node ids", ids, graph.num_nodes)
    check_edge_values(graph)


def check_ids(claim: str, ids: Tensor, bound: int) -> None:
    """Raise ValueError, a sentence that begins with `claim`, unless all ids lie from 0 to below `bound`."""
    for chunk in slices(ids.numel(), REDUCED):
        low, high = map(int, torch.aminmax(ids[chunk]))
        if low < 0 or high >= bound:
            raise ValueError(f"{claim} from 0 to {bound - 1}. Got {low if low < 0 else high}.")


def check_edge_values(graph: Graph) -> None:
    """Raise ValueError unless types and weights have an entry per edge and no type is negative."""
    for name, values in (("edge_type", graph.edge_type), ("edge_weight", graph.edge_weight)):
        if values is not None and values.numel() != graph.num_edges:
            raise ValueError(
                f"`{name}` must have one entry for each of the {graph.num_edges} edges. Got {values.numel()}."
            )
    if graph.edge_type is not None and graph.num_edges and int(graph.edge_type.min()) < 0:
        raise ValueError(f"`edge_type` must not be negative. Got {int(graph.edge_type.min())}.")


def integers(name: str, values: Any) -> Tensor:
    """`values` as an int64 tensor of one dimension, on the CPU."""
    values = _tensor(name, values)
    if values.numel() == 0:
        values = values.long()
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise ValueError(f"`{name}` must hold integers. Got {str(values.dtype).removeprefix('torch.')}.")
    if values.dim() != 1:
        raise ValueError(f"`{name}` must have one dimension. Got shape {list(values.shape)}.")
    return values.detach().cpu().long().contiguous()


def _tensor(name: str, values: Any) -> Tensor:
    if getattr(getattr(values, "flags", None), "writeable", True) is False:
        values = values.copy()  # torch warns of numpy arrays that it could write to by mistake
    try:
        found = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"`{name}` must be numbers of one dimension. Got {type(values).__name__}.") from None
    check_dense(name, found)
    return found


def check_dense(name: str, values: Any) -> None:
    """Raise ValueError where a tensor is sparse."""
    if isinstance(values, Tensor) and values.layout != torch.strided:
        raise ValueError(f"`{name}` must be a dense tensor. Got {str(values.layout).removeprefix('torch.')}.")


def weights(values: Any) -> Tensor:
    """`values` as finite edge weights of one dimension, on the CPU."""
    values = _tensor("edge_weight", values).detach().cpu()
    if values.dim() == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dim() != 1:
        raise ValueError(f"`edge_weight` must have one dimension. Got shape {list(values.shape)}.")
    if not values.is_floating_point():
        values = values.float()
    finite = torch.isfinite(values)
    if not finite.all():
        edge = int((~finite).nonzero()[0])
        raise ValueError(f"`edge_weight` must be finite. Got {values[edge].item()} at edge {edge}.")
    return values.contiguous()


def selection(nodes: Tensor, num_nodes: int) -> Tensor:
    """Distinct node ids, from ids or from a mask."""
    nodes = _tensor("nodes", nodes)
    if nodes.dtype == torch.bool:
        if nodes.numel() != num_nodes:
            raise ValueError(f"A node mask must have {num_nodes} entries. Got {nodes.numel()}.")
        return nodes.nonzero().flatten()
    nodes = integers("nodes", nodes)
    check_ids("`nodes` must hold node ids", nodes, num_nodes)
    if nodes.unique().numel() != nodes.numel():
        raise ValueError(f"`nodes` must be distinct. Got {nodes.numel() - nodes.unique().numel()} repeated.")
    return nodes


CHUNK, MANY, REDUCED = 1 << 20, 1 << 24, 1 << 30  # edges that are hashed at a time, rows compared, ids reduced
SENDER, RECEIVER, TYPE, WEIGHT, MIX = (  # odd numbers: the golden ratio's and those of splitmix64 and xxHash
    0x9E3779B97F4A7C15,
    0xBF58476D1CE4E5B9,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x94D049BB133111EB,
)
_WORD = 0xFFFFFFFFFFFFFFFF


class EdgeDigest(NamedTuple):
    """Two sums over the hashes of a graph's edges.

    Attributes:
        edges: the same for the same edges in any order.
        listed: the same for the same edges in the same order: an edge's id is its position.
    """

    edges: int
    listed: int


def digest_edges(src: Tensor, dst: Tensor, edge_type: Tensor | None, edge_weight: Tensor | None) -> EdgeDigest:
    """The digest of edges with their types and weights, `[E]` each; it reads them once and copies nothing large.

    >>> one = digest_edges(torch.tensor([0, 1]), torch.tensor([1, 2]), None, None)
    >>> other = digest_edges(torch.tensor([1, 0]), torch.tensor([2, 1]), None, None)
    >>> one.edges == other.edges, one.listed == other.listed
    (True, False)
    """
    from gpnn.csr_kernel import sum_hashes

    edges = listed = 0
    for chunk in slices(len(src), CHUNK):
        ends = (src[chunk].cpu().long(), dst[chunk].cpu().long())
        kind = ends[0][:0] if edge_type is None else edge_type[chunk].cpu().long()
        weight = ends[0][:0] if edge_weight is None else _bits(edge_weight[chunk])
        sums = sum_hashes(chunk.start, *(each.numpy() for each in (*ends, kind, weight)))
        edges, listed = edges + int(sums[0]) & _WORD, listed + int(sums[1]) & _WORD
    return EdgeDigest(edges, listed)


def digest_rows(ptr: Tensor, col: Tensor, edge_type: Tensor | None, edge_weight: Tensor | None) -> EdgeDigest:
    """The digest of edges by receiver, `ptr` `[N + 1]` and senders `[E]`, in the order of the entries.

    >>> rows = digest_rows(torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1]), None, None)
    >>> rows == digest_edges(torch.tensor([0, 1]), torch.tensor([1, 2]), None, None)
    True
    """
    edges = listed = 0
    for chunk in slices(col.numel(), CHUNK):
        parts = (None if each is None else each[chunk] for each in (edge_type, edge_weight))
        found = digest_edges(col[chunk], receivers(ptr, chunk), *parts)
        edges = edges + found.edges & _WORD
        listed = listed + found.listed + 2 * chunk.start * found.edges & _WORD
    return EdgeDigest(edges, listed)


def receivers(ptr: Tensor, edges: slice) -> Tensor:
    """The row of each of a range of entries, int64, `[e]`, where row r begins at `ptr[r]`.

    >>> receivers(torch.tensor([0, 2, 2, 3]), slice(1, 3)).tolist()
    [0, 2]
    """
    first, last = torch.searchsorted(ptr, torch.tensor([edges.start, edges.stop - 1], device=ptr.device), right=True)
    counts = ptr[int(first) - 1 : int(last) + 1].clamp(edges.start, edges.stop).diff()
    return torch.repeat_interleave(torch.arange(int(first) - 1, int(last), device=ptr.device), counts)


def sum_of_hashes(src: Tensor, dst: Tensor) -> int:
    """:attr:`EdgeDigest.edges` of edges without types and weights, by torch's own operations, where they lie."""
    hashed = src.long() * _signed(SENDER) + dst.long() * _signed(RECEIVER)
    hashed ^= (hashed >> 29) & (_WORD >> 29)  # a shift of signed numbers brings in ones
    hashed *= _signed(MIX)
    hashed ^= (hashed >> 32) & (_WORD >> 32)
    return int(hashed.sum()) & _WORD


def _bits(weight: Tensor) -> Tensor:
    """Weights as the 64 bits of a float64, `[e]`."""
    return weight.detach().cpu().double().reshape(-1).contiguous().view(torch.int64)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def distinct_edges(graph: Graph) -> tuple[Tensor, Tensor]:
    """An order that puts equal edges together, and the positions in it where a new edge begins."""
    import numpy as np

    keys = [graph.dst.numpy(), graph.src.numpy()]
    if graph.edge_type is not None:
        keys.insert(0, graph.edge_type.numpy())
    order = torch.from_numpy(np.lexsort(keys))
    new = torch.ones(graph.num_edges, dtype=torch.bool)
    if graph.num_edges:
        columns = [graph.src, graph.dst] + ([graph.edge_type] if graph.edge_type is not None else [])
        new[1:] = torch.stack([values[order].diff() != 0 for values in columns]).any(0)
    return order, new.nonzero().flatten()


def reduce_equal(values: Tensor, first: Tensor, reduce: str) -> Tensor:
    """The values of equal edges reduced to one, given in the order of :func:`distinct_edges`."""
    if not values.numel():
        return values
    lengths = torch.diff(first, append=torch.tensor([values.numel()]))
    return torch.segment_reduce(values, reduce, lengths=lengths)


def twice(values: Tensor | None) -> Tensor | None:
    """The values of every edge, then again those of every reverse."""
    return None if values is None else torch.cat([values, values])


@dataclass(frozen=True, eq=False)
class CSRRows:
    """Edges by receiver: those into node v are entries `ptr[v]:ptr[v + 1]`. An edge's id is its entry.

    Attributes:
        ptr: where each node's edges begin, int64, `[N + 1]`.
        col: their senders, int32 or int64, `[E]`.
        symmetric: whether the reverse of every edge is there equally often, with the same type and weight.
        out: the same by sender, `ptr` `[N + 1]` and the receivers `[E]`; None where the graph is symmetric, or they
            were not given.
        known_digest: of the edges with their types and weights, where it is known, as that of a file is.

    Raises:
        ValueError: where the arrays are not rows of a graph.
    """

    ptr: Tensor
    col: Tensor
    symmetric: bool = False
    out: tuple[Tensor, Tensor] | None = None
    known_digest: EdgeDigest | None = None

    def __post_init__(self) -> None:
        _check("ptr", self.ptr, (torch.int64,), len(self.ptr))
        for ptr, col in ((self.ptr, self.col), *(() if self.out is None else (self.out,))):
            _check("ptr", ptr, (torch.int64,), len(self.ptr))
            _check("col", col, (torch.int32, torch.int64), self.num_edges)
            check_rows(ptr, col, len(ptr) - 1)

    @property
    def num_nodes(self) -> int:
        return self.ptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.col.numel()

    @cached_property
    def by_sender(self) -> tuple[Tensor, Tensor] | None:
        """The rows of senders, `ptr` and receivers; None where they are not known."""
        return (self.ptr, self.col) if self.symmetric else self.out

    def edge_list(self) -> tuple[Tensor, Tensor]:
        """Sender and receiver of each edge, int64, on the CPU, `[E]` each."""
        ptr = self.ptr.cpu()
        return self.col.cpu().long(), torch.repeat_interleave(torch.arange(self.num_nodes), ptr.diff())

    def digest(self, edge_type: Tensor | None, edge_weight: Tensor | None) -> EdgeDigest:
        """The digest of the edges, as an edge list of them has it."""
        if self.known_digest is not None:
            return self.known_digest
        return digest_rows(self.ptr, self.col, edge_type, edge_weight)

    def to(self, device: torch.device | str) -> CSRRows:
        """The same rows on a device, without those of senders."""
        if self.ptr.device == torch.device(device):
            return self
        return CSRRows(self.ptr.to(device), self.col.to(device), self.symmetric, None, self.known_digest)


def _check(name: str, values: Any, dtypes: tuple[torch.dtype, ...], length: int) -> None:
    if not isinstance(values, Tensor) or values.dim() != 1 or values.dtype not in dtypes or len(values) != length:
        kinds = " or ".join(str(each).removeprefix("torch.") for each in dtypes)
        found = f"{values.dtype} {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"`{name}` of rows must be a tensor of {kinds}, [{length}]. Got {found}.")


def check_rows(
    ptr: Tensor, col: Tensor, bound: int, what: str = "edges", claim: str = "`col` must hold node ids"
) -> None:
    """Raise ValueError unless `ptr` divides `col` into rows, and `col` lies from 0 to below `bound`."""
    if len(ptr) < 2 or int(ptr[0]) != 0 or int(ptr[-1]) != len(col):
        ends = f"{int(ptr[0])} and {int(ptr[-1])}" if len(ptr) else "none"
        raise ValueError(f"`ptr` of rows must begin at 0 and end at the {len(col)} {what}. Got {ends}.")
    for rows in slices(len(ptr) - 1, MANY):
        if bool((ptr[rows.start : rows.stop + 1].diff() < 0).any()):
            raise ValueError(f"`ptr` of rows must not fall. It does past row {rows.start}.")
    check_ids(claim, col, bound)
