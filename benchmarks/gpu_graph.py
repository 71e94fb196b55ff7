"""Graphs made on the device, with shuffled ids: planted ones with power-law degrees and communities, and R-MAT."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

CLASSES = 172  # as ogbn-papers100M has
DRAWS = 1 << 26  # pairs drawn at one time


@dataclass(frozen=True)
class Pairs:
    """The edges of an undirected graph, each once, and the class of each node.

    Attributes:
        first: one end of each edge, int32, `[E / 2]`.
        second: the other.
        label: class of each node, `[N]`.
        mixed: share of the edges that leave their community, or whose ends have two classes.
    """

    first: Tensor
    second: Tensor
    label: Tensor
    mixed: float


@dataclass(frozen=True)
class PlantedGraph:
    """A symmetric graph and the class of each node.

    Attributes:
        ptr: where each node's neighbours begin, int64, `[N + 1]`.
        col: the neighbours, int32, `[E]`.
        label: class of each node, `[N]`.
        mixed: as in :class:`Pairs`.
    """

    ptr: Tensor
    col: Tensor
    label: Tensor
    mixed: float


def planted(num_nodes: int, num_edges: int, device: str, *, graph: str = "planted") -> PlantedGraph:
    """A graph of `PAIRS` in CSR form, `num_edges` counted in both directions."""
    pairs = PAIRS[graph](num_nodes, num_edges, device)
    ptr, col = symmetric_csr(pairs.first, pairs.second, num_nodes)
    return PlantedGraph(ptr, col, pairs.label, pairs.mixed)


def planted_pairs(num_nodes: int, num_edges: int, device: str, *, mixing: float = 0.1, seed: int = 0) -> Pairs:
    """Communities of 200 to 5,000 nodes and degrees from 3 to 20,000, both by power laws.

    Both ends of an edge are drawn in proportion to the nodes' intended degrees, the second within the first's
    community but for a share `mixing`. Multi-edges and self-loops stay.
    """
    random = torch.Generator(device).manual_seed(seed)
    low = min(200, max(4, num_nodes // 50))
    sizes = _power_law(num_nodes // low + 2, low, 25 * low, 1.5, random)
    ends = sizes.long().cumsum(0)
    ends = ends[: int(torch.searchsorted(ends, num_nodes)) + 1].clamp_(max=num_nodes)  # where each community ends
    weight = _power_law(num_nodes, 3, 20000, 2.5, random).cumsum(0)  # float64
    border = torch.cat([weight.new_zeros(1), weight[ends - 1]])
    name = torch.randperm(num_nodes, device=device, generator=random).int()
    half = num_edges // 2
    first, second = (torch.empty(half, dtype=torch.int32, device=device) for _ in range(2))
    leaving = 0
    for start in range(0, half, DRAWS):
        count = min(DRAWS, half - start)
        u = _draw(weight, weight[-1] * _uniform(count, random))
        home = torch.searchsorted(ends, u.long(), right=True)
        inside = border[home] + (border[home + 1] - border[home]) * _uniform(count, random)
        leaves = _uniform(count, random) < mixing
        v = _draw(weight, torch.where(leaves, weight[-1] * _uniform(count, random), inside))
        leaving += int((torch.searchsorted(ends, v.long(), right=True) != home).sum())
        first[start : start + count], second[start : start + count] = name[u.long()], name[v.long()]
    kind = torch.randint(CLASSES, (len(ends),), device=device, generator=random)
    label = torch.empty(num_nodes, dtype=torch.int64, device=device)
    community = torch.searchsorted(ends, torch.arange(num_nodes, device=device), right=True)
    label[name.long()] = kind[community]
    return Pairs(first, second, label, leaving / max(1, half))


def rmat_pairs(num_nodes: int, num_edges: int, device: str, *, seed: int = 0) -> Pairs:
    """R-MAT with (0.57, 0.19, 0.19, 0.05): degrees as skewed as those of the Graph 500, no communities.

    A node's class is the range of ids that it lies in before they are shuffled: the corners of the recursion.
    """
    random = torch.Generator(device).manual_seed(seed)
    name = torch.randperm(num_nodes, device=device, generator=random).int()
    half, ends, mixed = num_edges // 2, [], 0
    for start in range(0, half, DRAWS):
        u, v = (torch.zeros(min(DRAWS, half - start), dtype=torch.int64, device=device) for _ in range(2))
        for _ in range((num_nodes - 1).bit_length()):
            draw = torch.rand(len(u), device=device, generator=random)
            u, v = 2 * u + (draw >= 0.76), 2 * v + (((draw >= 0.57) & (draw < 0.76)) | (draw >= 0.95))
        u, v = u % num_nodes, v % num_nodes
        mixed += int((u * CLASSES // num_nodes != v * CLASSES // num_nodes).sum())
        ends.append((name[u], name[v]))
    label = torch.empty(num_nodes, dtype=torch.int64, device=device)
    label[name.long()] = torch.arange(num_nodes, device=device) * CLASSES // num_nodes
    first, second = (torch.cat(each) for each in zip(*ends))
    return Pairs(first, second, label, mixed / max(1, half))


PAIRS: dict[str, Callable[[int, int, str], Pairs]] = {"planted": planted_pairs, "rmat": rmat_pairs}


def symmetric_csr(first: Tensor, second: Tensor, num_nodes: int, *, pieces: int = 32) -> tuple[Tensor, Tensor]:
    """Each pair in both directions, by sender, neighbours ascending; sorted a range of senders at a time."""
    ptr = torch.zeros(num_nodes + 1, dtype=torch.int64, device=first.device)
    col = torch.empty(2 * len(first), dtype=torch.int32, device=first.device)
    step, filled = -(-num_nodes // pieces), 0
    for low in range(0, num_nodes, step):
        keys = []
        for a, b in ((first, second), (second, first)):
            chosen = (a >= low) & (a < low + step)
            keys.append((a[chosen].long() - low << 32) | b[chosen])
        key = torch.cat(keys).sort().values
        high = min(low + step, num_nodes)
        ptr[low + 1 : high + 1] = torch.bincount(key >> 32, minlength=high - low)
        col[filled : filled + len(key)] = (key & 0x7FFFFFFF).int()
        filled += len(key)
    return ptr.cumsum_(0), col


def _draw(weight: Tensor, aim: Tensor) -> Tensor:
    return torch.searchsorted(weight, aim, right=True, out_int32=True).clamp_(max=len(weight) - 1)


def _uniform(count: int, random: torch.Generator) -> Tensor:
    return torch.rand(count, dtype=torch.float64, device=random.device, generator=random)


def _power_law(count: int, low: float, high: float, exponent: float, random: torch.Generator) -> Tensor:
    bottom, top = low ** (1 - exponent), high ** (1 - exponent)
    return ((top - bottom) * _uniform(count, random) + bottom) ** (1 / (1 - exponent))
