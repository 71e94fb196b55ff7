"""Normalisation rules against dense matrices."""

from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import gpnn
from gpnn import Graph
from gpnn.engine import NORMALIZATIONS, Plan
from tests.oracle.engine_cases import make_cell, make_schedule, multigraph
from tests.oracle.small_graphs import partitioned_graphs
from tests.oracle.weigh import phase_matrix


def step_matrices(plan: Plan) -> list[np.ndarray]:
    """What one step of each phase of the first round does to the states, in the user's order, `[N + V, N + V]` each."""
    size = plan.schedule.graph.num_nodes
    cell = make_cell("linear", alpha=0.0)
    order = torch.arange(size) if plan.order is None else plan.order
    matrices = []
    for phase in plan.rounds[0]:
        state = torch.eye(size, dtype=torch.float64)[order]
        block = phase.whole
        state[block.rows] = cell.advance(block, block.read(state), None)
        matrices.append(torch.empty_like(state).index_copy_(0, order, state).numpy())
    return matrices


@pytest.mark.parametrize("rule", NORMALIZATIONS)
@pytest.mark.parametrize("self_loops", [False, True])
def test_every_rule_is_its_matrix(rule, self_loops):
    cases = [("partitioned", False), ("partitioned", True), ("sequential", True), ("subgraph_memory", True)]
    for name, weighted in cases:
        schedule = make_schedule(name, graph := multigraph(weighted=weighted))
        plan = gpnn.lower(graph, schedule, normalization=rule, self_loops=self_loops)
        for phase, matrix in zip(schedule.rounds[0], step_matrices(plan), strict=True):
            expected = phase_matrix(schedule.graph, phase, rule, float(self_loops), schedule.num_virtual)
            np.testing.assert_allclose(matrix, expected, atol=1e-14)


@pytest.mark.parametrize("rule", ["split", "symmetric_split"])
@settings(max_examples=40, deadline=None)
@given(case=partitioned_graphs())
def test_split_composes_to_a_synchronous_step(rule, case):
    graph, labels = case
    parted = gpnn.lower(graph, gpnn.schedule.partitioned(graph, labels), normalization=rule)
    once = gpnn.lower(graph, gpnn.schedule.synchronous(graph), normalization=rule)
    composed = reduce(np.matmul, reversed(step_matrices(parted)))
    (synchronous,) = step_matrices(once)
    crossing = torch.tensor(labels)[graph.src] != torch.tensor(labels)[graph.dst]
    touched = torch.cat([graph.src[crossing], graph.dst[crossing]])
    interior = np.setdiff1d(np.arange(graph.num_nodes), touched.numpy())
    np.testing.assert_allclose(composed[interior], synchronous[interior], atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(case=partitioned_graphs())
def test_split_is_lazy_at_cut_nodes(case):
    graph, labels = case
    plan = gpnn.lower(graph, gpnn.schedule.partitioned(graph, labels), normalization="split")
    degree = np.maximum(graph.in_degree.numpy(), 1)
    walk = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(walk, (graph.dst.numpy(), graph.src.numpy()), 1 / degree[graph.dst])
    same = np.equal.outer(labels, labels)
    for share, matrix in zip((walk * same, walk * ~same), step_matrices(plan)):
        np.testing.assert_allclose(matrix, share + np.diag(1 - share.sum(1)), atol=1e-14)


def test_split_keeps_what_negative_weights_leave():
    graph = Graph([0, 1, 2], [1, 0, 1], 3, edge_weight=torch.tensor([-3.0, 1.0, 1.0]))
    plan = gpnn.lower(graph, gpnn.schedule.partitioned(graph, [0, 0, 1]), normalization="split")
    inside, cut = step_matrices(plan)
    np.testing.assert_allclose(inside[1], [-0.75, 0.25, 0])
    np.testing.assert_allclose(cut[1], [0, 0.75, 0.25])


def test_symmetric_with_self_loops_is_gcn():
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    graph = multigraph(weighted=False, num_types=1)
    proper = graph.select_edges(graph.src != graph.dst)  # PyG replaces self-loops that exist
    plan = gpnn.lower(proper, gpnn.schedule.synchronous(proper), normalization="symmetric", self_loops=True)
    edge_index, weight = gcn_norm(torch.stack([proper.src, proper.dst]), num_nodes=10, dtype=torch.float64)
    expected = np.zeros((10, 10))
    np.add.at(expected, (edge_index[1].numpy(), edge_index[0].numpy()), weight.numpy())
    np.testing.assert_allclose(step_matrices(plan)[0], expected, atol=1e-14)


def test_refuses_unknown_rules():
    graph = multigraph()
    with pytest.raises(ValueError, match=r"`normalization` must be one of phase, graph, split.* Got 'mean'"):
        gpnn.lower(graph, gpnn.schedule.synchronous(graph), normalization="mean")
