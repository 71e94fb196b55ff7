"""The graph itself: every node where it is small, one mark per subgraph where it is large."""

from __future__ import annotations

import numpy as np
import torch

from gpnn.graph import Graph
from gpnn.report.content import MUTED, Chart, Section, Trace, color, label
from gpnn.report.counts import Quotient
from gpnn.report.layout import MAX_NODES, distinct_pairs, force_layout
from gpnn.report.record import Record, SmallGraph
from gpnn.report.states import PLANE, coloured_points, placed_points
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
    return {
        "type": "scatter",
        "mode": "markers",
        "members": list(range(len(sizes))),
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
        "marker": {"size": radius, "color": colors, "line": {"width": 1, "color": "theme"}},
    }
