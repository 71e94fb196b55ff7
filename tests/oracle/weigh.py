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
    if rule == "none":
        return {e: weight[e] for e in edges}, dict.fromkeys(nodes, loop)
    if any(max(src[e], dst[e]) >= real for e in edges):
        rule = "phase"

    def degree(node: int, among: list[int]) -> float:
        return loop + sum(abs(weight[e]) for e in among if dst[e] == node)

    every = [e for e in range(graph.num_edges) if max(src[e], dst[e]) < real]
    among = edges if rule in ("phase", "symmetric_phase") else every
    shares = {}
    for e in edges:
        scale = degree(dst[e], among)
        if rule.startswith("symmetric"):
            scale = math.sqrt(scale * degree(src[e], among))
        shares[e] = weight[e] / scale if scale else 0.0
    own = {}
    for node in nodes:
        whole = degree(node, among)
        if rule.endswith("split"):
            brought = degree(node, edges) - loop
            own[node] = 1 - brought / whole if whole else 1.0
        else:
            own[node] = loop / whole if whole else 0.0
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
