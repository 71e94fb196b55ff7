"""Slow normalisation: the weight of each message of a phase and of each node's own state, one edge at a time."""

import math

import numpy as np

from gpnn import Graph
from gpnn.schedule import Phase


def weigh(graph: Graph, phase: Phase, rule: str, loop: float, num_virtual: int) -> tuple[dict, dict]:
    """{edge: weight} and {node: weight of its own state}."""
    src, dst = graph.src.tolist(), graph.dst.tolist()
    weight = [1.0] * graph.num_edges if graph.edge_weight is None else graph.edge_weight.tolist()
    real = graph.num_nodes - num_virtual
    edges, nodes = phase.edges.tolist(), phase.nodes.tolist()
    edges += [] if phase.held is None else phase.held.tolist()
    if rule == "none":
        return {e: weight[e] for e in edges}, dict.fromkeys(nodes, loop)
    if any(max(src[e], dst[e]) >= real for e in edges):
        rule = "phase"

    def in_weights(among: list[int]) -> list[float]:
        total = [loop] * graph.num_nodes
        for e in among:
            total[dst[e]] += abs(weight[e])
        return total

    every = [e for e in range(graph.num_edges) if max(src[e], dst[e]) < real]
    brought = in_weights(edges)
    degree = brought if rule in ("phase", "symmetric_phase") else in_weights(every)
    shares = {}
    for e in edges:
        scale = degree[dst[e]]
        if rule.startswith("symmetric"):
            scale = math.sqrt(scale * degree[src[e]])
        shares[e] = weight[e] / scale if scale else 0.0
    own = {}
    for node in nodes:
        if rule.endswith("split"):
            own[node] = 1 - (brought[node] - loop) / degree[node] if degree[node] else 1.0
        else:
            own[node] = loop / degree[node] if degree[node] else 0.0
    return shares, own


def phase_matrix(graph: Graph, phase: Phase, rule: str, loop: float = 0.0, num_virtual: int = 0) -> np.ndarray:
    """The step of a linear cell as a matrix, `[N, N]`: rows that the phase does not write are the identity's."""
    shares, own = weigh(graph, phase, rule, loop, num_virtual)
    matrix = np.eye(graph.num_nodes)
    for node, share in own.items():
        matrix[node] = 0
        matrix[node, node] = share
    for e, share in shares.items():
        matrix[int(graph.dst[e]), int(graph.src[e])] += share
    return matrix
