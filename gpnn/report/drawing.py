"""The graph itself: every node where it is small, one mark per subgraph where it is large; and where they lie."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from gpnn.graph import Graph
from gpnn.partition import Partition, partition_graph
from gpnn.report.counts import Quotient, count_between
from gpnn.report.record import MUTED, Chart, Record, Section, SmallGraph, Trace, color, label
from gpnn.report.states import PLANE, coloured_points, marks, placed_points
from gpnn.text import percent

MAX_PAIRS = 15_000


def drawing(record: Record) -> Section | None:
    """The graph coloured by subgraph, prediction or class; one that is large or divided among processes by subgraph.

    None where such a graph has no subgraphs to draw it by.
    """
    if record.small is not None:
        return _by_node(record.small, record.seed)
    if record.quotient is None or record.quotient.num_parts < 2:
        return None
    return _by_subgraph(record, record.quotient)


def _by_node(found: SmallGraph, seed: int) -> Section:
    graph, nodes = found.graph, found.facts
    places = force_layout(graph, found.partition, seed)
    src, dst = distinct_pairs(graph)
    total = len(src)
    lead = f"{graph.num_nodes:,} nodes and {total:,} pairs of neighbours. Hover over a node to read it; drag to move."
    if total > MAX_PAIRS:
        kept = np.random.default_rng(seed).choice(total, MAX_PAIRS, replace=False)
        src, dst = src[kept], dst[kept]
        lead += f" Lines show {MAX_PAIRS:,} of the pairs, drawn at random."
    chart = Chart(
        name="drawing",
        title="The graph",
        alt=f"A drawing of the graph's {graph.num_nodes:,} nodes.",
        views=coloured_points(nodes, float(np.clip(90 / np.sqrt(graph.num_nodes), 4, 13))),
        points=placed_points(nodes, places),
        ground=[_lines(src, dst, 0.7 if total > 1000 else 1.2)],
        **PLANE,
    )
    return Section("graph", "Graph", lead, [chart])


def _by_subgraph(record: Record, found: Quotient) -> Section:
    between = found.between + found.between.T
    low, high = np.triu(between, 1).nonzero()
    weight = torch.from_numpy(between[low, high].astype(np.float32))
    small = Graph(torch.from_numpy(low), torch.from_numpy(high), num_nodes=len(found.shown), edge_weight=weight)
    x, y = force_layout(small, None, record.seed).round(3).T.tolist()
    lead = (
        f"A graph of {found.num_nodes:,} nodes is drawn by its subgraphs: a mark grows with the nodes of its "
        "subgraph, a line with the edges between two."
    )
    if record.shares and found.num_nodes <= MAX_NODES:
        lead = lead.replace("nodes is drawn", "nodes that several processes share is drawn")
    if found.num_parts > len(found.shown):
        lead += f" The {len(found.shown)} largest of {found.num_parts:,} are shown."
    common, share = found.predicted.argmax(1), found.predicted.max(1) / np.maximum(found.predicted.sum(1), 1)
    texts = _texts(record, found.shown, found.sizes, found.between.diagonal(), common, share)
    chart = Chart(
        name="drawing",
        title="The subgraphs",
        alt=f"A drawing of {len(found.shown)} subgraphs and the edges between them.",
        views={"subgraph": [_marks(found.shown, found.sizes)], "most common prediction": [_marks(common, found.sizes)]},
        points={"x": x, "y": y, "text": texts},
        ground=_weighted_lines(low, high, between[low, high]),
        **PLANE,
    )
    return Section("graph", "Graph", lead, [chart])


def _lines(src: np.ndarray, dst: np.ndarray, width: float) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "ends": [src.tolist(), dst.tolist()],
        "line": {"color": MUTED, "width": width},
        "opacity": 0.35,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _weighted_lines(low: np.ndarray, high: np.ndarray, counts: np.ndarray) -> list[Trace]:
    """Lines of four widths, by the logarithm of their edges."""
    if not len(counts):
        return []
    level = np.minimum(4 * np.log1p(counts) // np.log1p(counts.max()), 3)
    widths = {number: 0.6 + 1.6 * number for number in range(4) if (level == number).any()}
    return [_lines(low[level == number], high[level == number], width) for number, width in widths.items()]


def _texts(record: Record, *columns: np.ndarray) -> list[str]:
    """What one reads over each subgraph: its number, nodes, edges inside, commonest class and that one's share."""
    return [
        f"<b>subgraph {part}</b><br>{nodes:,} nodes, {edges:,} edges inside"
        f"<br>mostly {label(record.classes[common])} ({percent(share)})"
        for part, nodes, edges, common, share in zip(*(column.tolist() for column in columns))
    ]


def _marks(groups: np.ndarray, sizes: np.ndarray) -> Trace:
    """One mark per subgraph, its area by its nodes, coloured by group."""
    largest = min(46.0, 220 / np.sqrt(len(sizes)))
    radius = np.maximum(largest * np.sqrt(sizes / max(1, sizes.max())), 5).round(1).tolist()
    colors = [color(group) for group in groups.tolist()]
    return marks(list(range(len(sizes))), colors, radius, 1.0) | {"showlegend": False}


MAX_NODES = 3000
PAIRS = 5e8  # a few seconds of pushing


def force_layout(graph: Graph, partition: Partition | None = None, seed: int = 0) -> np.ndarray:
    """Positions [N, 2] in which neighbours lie close and clusters apart, by the forces of ForceAtlas2.

    The subgraphs are laid out first, as the nodes of their quotient graph, and each node starts near its own: a
    start from random places needs many more steps to untangle.

    Args:
        graph: N nodes; edges pull by their weights, where they have any, and whatever their direction.
        partition: the subgraphs; None or a single one: some that are made here.
        seed: of the start.

    Raises:
        ValueError: when the graph has more than 3,000 nodes.

    >>> places = force_layout(Graph([0, 1, 3], [1, 2, 4], num_nodes=5))
    >>> bool(np.hypot(*(places[3] - places[4])) < np.hypot(*(places[0] - places[4])))
    True
    """
    if graph.num_nodes > MAX_NODES:
        raise ValueError(f"A layout can be made for at most {MAX_NODES} nodes. Got {graph.num_nodes}.")
    src, dst = distinct_pairs(graph)
    weight = np.ones(len(src)) if graph.edge_weight is None else _pair_weights(graph, src, dst)
    steps = int(np.clip(PAIRS / max(1, graph.num_nodes) ** 2, 60, 300))
    return _settle(_start(graph, partition, seed), src, dst, weight, steps)


def distinct_pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of joined nodes, each once, without self-loops, two arrays `[P]`."""
    src, dst = graph.src.numpy(), graph.dst.numpy()
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    pairs = np.unique(low[low != high] * graph.num_nodes + high[low != high])
    return pairs // graph.num_nodes, pairs % graph.num_nodes


def _settle(places: np.ndarray, src: np.ndarray, dst: np.ndarray, weight: np.ndarray, steps: int) -> np.ndarray:
    """Let the forces act on `places`; a node weighs one and its edges, over the mean."""
    mass = 1.0 + np.bincount(np.r_[src, dst], np.r_[weight, weight], minlength=len(places))
    relax(places, np.ascontiguousarray(src), np.ascontiguousarray(dst), weight, mass / mass.mean(), steps, 0.5)
    return places


def _start(graph: Graph, partition: Partition | None, seed: int) -> np.ndarray:
    """Each node near the centre of its subgraph, the larger the subgraph the less near."""
    random = np.random.default_rng(seed)
    scatter = random.standard_normal((graph.num_nodes, 2))
    if graph.num_nodes < 20:
        return scatter
    if partition is None or partition.num_parts == 1:
        parts = min(graph.num_nodes, max(2, round(np.sqrt(graph.num_nodes) / 2)))
        partition = partition_graph(graph, parts, "flood_fill", seed)
    k, labels = partition.num_parts, partition.labels.numpy()
    counts = count_between(graph, partition.labels, k).numpy()
    low, high = np.triu(counts + counts.T, 1).nonzero()
    between = (counts + counts.T)[low, high]
    centres = random.standard_normal((k, 2)) * np.sqrt(k)
    centres = _settle(centres, low, high, between / max(1, between.max(initial=0)), 200)
    spread = np.sqrt(graph.num_nodes / k)
    return centres[labels] * spread + scatter * 0.5 * np.sqrt(partition.sizes.numpy())[labels, None]


def _pair_weights(graph: Graph, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """The weight between the ends of each pair, both directions and parallel edges added, over the largest."""
    matrix = abs(graph.to_scipy())
    weight = np.asarray((matrix + matrix.T)[src, dst], np.float64).ravel()
    return weight / max(weight.max(initial=0), 1e-12)


@njit(cache=True, nogil=True)
def relax(places, src, dst, weight, mass, steps, gravity):  # type: ignore[no-untyped-def]
    """Move `places` [N, 2] for `steps` steps: nodes push by their masses over the distance, edges pull with weight · d.

    ForceAtlas2 (Jacomy et al. 2014) without its approximation: a node's mass is its share of edges, so that hubs keep
    others away and clusters part. All are drawn to 0. A node goes along its force over its mass, and no further than a
    bound that falls to zero.
    """
    n = len(places)
    force = np.empty_like(places)
    reach = np.sqrt(n) / 8
    for step in range(steps):
        for i in range(n):
            force[i, 0] = -gravity * mass[i] * places[i, 0]
            force[i, 1] = -gravity * mass[i] * places[i, 1]
        for i in range(n):
            x, y = places[i, 0], places[i, 1]
            fx, fy = 0.0, 0.0
            for j in range(i):
                dx, dy = x - places[j, 0], y - places[j, 1]
                push = mass[i] * mass[j] / (dx * dx + dy * dy + 1e-4)
                fx += dx * push
                fy += dy * push
                force[j, 0] -= dx * push
                force[j, 1] -= dy * push
            force[i, 0] += fx
            force[i, 1] += fy
        for e in range(len(src)):
            i, j = src[e], dst[e]
            dx = weight[e] * (places[i, 0] - places[j, 0])
            dy = weight[e] * (places[i, 1] - places[j, 1])
            force[i, 0] -= dx
            force[i, 1] -= dy
            force[j, 0] += dx
            force[j, 1] += dy
        bound = reach * (1 - step / steps) ** 1.5
        for i in range(n):
            length = np.sqrt(force[i, 0] ** 2 + force[i, 1] ** 2) / mass[i] + 1e-12
            scale = min(length, bound) / (length * mass[i])
            places[i, 0] += force[i, 0] * scale
            places[i, 1] += force[i, 1] * scale
