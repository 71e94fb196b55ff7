"""Sheet: where the nodes and edges of a small graph lie in every panel of a picture."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch

from gpnn.graph import Graph
from gpnn.partition import Partition
from gpnn.schedule.schedule import Schedule

_MAX_WIDTH = 500.0
_SIZES = ((20, 12.0, 60.0), (60, 10.0, 70.0), (200, 8.0, 48.0))  # up to so many nodes: radius, edge length


@dataclass(frozen=True)
class Sheet:
    """What all panels of a picture share; lengths are in pixels."""

    positions: np.ndarray  # [N, 2] centre of each node
    labels: np.ndarray  # [N] subgraph, -1 for a virtual node
    src: np.ndarray  # [E]
    dst: np.ndarray  # [E]
    bend: np.ndarray  # [E] how far an edge bulges; for a self-loop, how many it has before it
    crossing: np.ndarray  # [E] between two subgraphs
    virtual: np.ndarray  # [E] to or from a virtual node
    held: np.ndarray  # [E] held in some phase
    edge_type: np.ndarray  # [E]
    radius: float  # of a node
    width: float
    height: float


def lay_out(schedule: Schedule, partition: Partition | None, seed: int) -> Sheet:
    """The sheet of `schedule`'s graph, coloured by `partition` or by the schedule's own subgraphs."""
    graph, num_real = schedule.graph, schedule.graph.num_nodes - schedule.num_virtual
    labels = _labels(schedule, partition, num_real)
    src, dst = graph.src.numpy(), graph.dst.numpy()
    virtual = (labels[src] < 0) | (labels[dst] < 0)
    radius, length = next(sizes for limit, *sizes in _SIZES if num_real <= limit)
    bend = np.where(virtual, 0.0, _bends(src, dst) * np.where(src == dst, 1, radius))
    positions = _pixels(layout(graph.subgraph(torch.arange(num_real)), seed), radius, length)
    for node in range(num_real, graph.num_nodes):
        spot = _free_spot(positions, positions[dst[src == node]].mean(0), radius)
        positions = np.vstack([positions, spot])
    loops = src == dst
    above = radius * (3.4 + bend[loops].max()) if loops.any() else 2.4 * radius
    around = 2 * radius + 0.5 * (bend[~loops].max() if (~loops).any() else 0.0)
    positions = positions - positions.min(0) + [around, max(above, around)]
    width, height = (float(extent) for extent in positions.max(0) + around)
    crossing = (labels[src] != labels[dst]) & ~virtual
    edge_type = np.zeros(len(src), np.int64) if graph.edge_type is None else graph.edge_type.numpy()
    held = np.zeros(len(src), np.bool_)
    for phase in schedule.distinct_phases():
        ids = phase.listed.held
        held[[] if ids is None else ids.numpy()] = True
    return Sheet(positions, labels, src, dst, bend, crossing, virtual, held, edge_type, radius, width, height)


def _labels(schedule: Schedule, partition: Partition | None, num_real: int) -> np.ndarray:
    """Subgraph of each node, [N]: given, or the blocks of the phase that updates the members of subgraphs."""
    labels = np.zeros(schedule.graph.num_nodes, np.int64)
    labels[num_real:] = -1
    if partition is not None:
        if partition.num_nodes != num_real:
            got = f"Got {partition.num_nodes} labels."
            raise ValueError(f"`partition` must label each of the {num_real} nodes. {got}")
        labels[:num_real] = partition.labels.numpy()
        return labels
    blocked = [p for p in schedule.distinct_phases() if p.num_blocks > 1 and p.kind in ("inside", "held", "scatter")]
    for phase in sorted(blocked, key=lambda phase: phase.num_updates)[-1:]:
        for number, (_, nodes) in enumerate(phase.listed.blocks()):
            labels[nodes.numpy()] = number
    return labels


def _pixels(positions: np.ndarray, radius: float, length: float) -> np.ndarray:
    """An edge about `length` long, or less where the panel got too wide; overlapping nodes are separated."""
    widest = max(float(np.ptp(positions, axis=0).max()), 1e-9)
    pixels = positions * max(min(length, _MAX_WIDTH / widest), 2.9 * radius)
    for _ in range(100):
        offset = pixels[:, None] - pixels[None]  # [N, N, 2]
        distance = np.hypot(offset[..., 0], offset[..., 1])
        np.fill_diagonal(distance, np.inf)
        lacking = np.maximum(2.9 * radius - distance, 0)
        if lacking.max() < 0.5:
            break
        pixels = pixels + (offset / np.maximum(distance, 1e-9)[..., None] * lacking[..., None] / 2).sum(1)
    return pixels


def _free_spot(occupied: np.ndarray, wanted: np.ndarray, radius: float) -> np.ndarray:
    """The first place from `wanted` upwards that is clear of all nodes."""
    while np.hypot(*(occupied - wanted).T).min() < 4 * radius:
        wanted = wanted - [0, radius]
    return wanted


def _bends(src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """In radii: 0 alone; an edge and its reverse bulge to their own sides, parallel ones further and further."""
    pairs = list(zip(src.tolist(), dst.tolist()))
    joined, seen, bends = set(pairs), Counter[tuple[int, int]](), []
    for u, v in pairs:
        first, more = (0.0, 1.0) if u == v else (1.4 if (v, u) in joined else 0.0, 2.0)
        bends.append(first + more * seen[u, v])
        seen[u, v] += 1
    return np.array(bends)


_ITERATIONS = 300


def layout(graph: Graph, seed: int = 0) -> np.ndarray:
    """Positions [N, 2] by stress majorisation: a chain is a line, a ring a circle, one edge about one unit.

    The longer axis lies across; components lie side by side, the largest first.

    Args:
        graph: N nodes; directions and parallel edges do not matter.
        seed: of the start.

    >>> layout(Graph([0, 1], [1, 2], num_nodes=3))[:, 0].round(2).tolist()
    [0.0, 1.0, 2.0]
    """
    from scipy.sparse.csgraph import shortest_path

    hops = shortest_path(graph.to_scipy(weighted=False), directed=False, unweighted=True)
    labels = graph.components().numpy()
    positions = np.zeros((graph.num_nodes, 2))
    edge = 0.0
    for number in np.argsort(-np.bincount(labels), kind="stable"):
        members = np.flatnonzero(labels == number)
        placed = _upright(_majorise(hops[np.ix_(members, members)], seed))
        positions[members] = placed + np.array([edge - placed[:, 0].min(), 0])
        edge = positions[members, 0].max() + 1
    return positions


def _majorise(hops: np.ndarray, seed: int) -> np.ndarray:
    """SMACOF with weights hops⁻²: each step solves L·x = L(x)·x, which never raises the stress."""
    size = len(hops)
    if size == 1:
        return np.zeros((1, 2))
    positions = _classical(hops) + 1e-3 * np.random.default_rng(seed).standard_normal((size, 2))
    weight = 1 / np.maximum(hops, 1) ** 2
    np.fill_diagonal(weight, 0)
    inverse = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    for _ in range(_ITERATIONS):
        distance = np.hypot(*(np.subtract.outer(axis, axis) for axis in positions.T))
        pull = weight * hops / np.maximum(distance, 1e-9)
        moved = inverse @ (pull.sum(1)[:, None] * positions - pull @ positions)
        still = np.abs(moved - positions).max() < 1e-4
        positions = moved
        if still:
            break
    return positions


def _classical(hops: np.ndarray) -> np.ndarray:
    """Classical scaling: the two leading axes of the doubly centred squared distances."""
    squared = hops**2
    centred = squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    leading = vectors[:, -1:-3:-1] * np.sqrt(np.maximum(values[-1:-3:-1], 0))
    return leading * np.where(leading[0] > 0, -1, 1)  # node 0 to the left: the sign is arbitrary


def _upright(positions: np.ndarray) -> np.ndarray:
    """Centred, the longer axis across, the first node to the left."""
    centred = positions - positions.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    if turned.shape[1] < 2:
        turned = np.c_[turned, np.zeros(len(turned))]
    return turned * np.where(turned[0] > 0, -1, 1)
