import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from gpnn.schedule import centrality, priority, synchronous
from gpnn.schedule.priority import _pagerank
from tests.oracle.small_graphs import chain, undirected_graphs


@settings(max_examples=30, deadline=None)
@given(graph=undirected_graphs())
def test_the_largest_residuals_update_next(graph):
    sources = {node: graph.src[graph.dst == node].tolist() for node in range(graph.num_nodes)}
    receivers = {node for node in sources if sources[node]}
    state = np.random.default_rng(3).standard_normal((graph.num_nodes, 8))
    made = [phase for phases in priority(graph, rounds=2, batches=3, seed=3).rounds for phase in phases]
    assert len(made) == 2 * min(3, len(receivers))
    for phase in made:  # from the definition, one node at a time
        change = {node: (state[sources[node]].mean(0) - state[node]) / 2 for node in receivers}
        residual = {node: float(np.square(change[node]).sum()) for node in receivers}
        nodes = phase.nodes.tolist()
        assert len(nodes) == -(-len(receivers) // 3)
        others = [residual[node] for node in receivers.difference(nodes)]
        assert min(residual[node] for node in nodes) >= max(others, default=0) - 1e-5
        assert phase.edges.tolist() == torch.isin(graph.dst, phase.nodes).nonzero().flatten().tolist()
        for node in nodes:
            state[node] += change[node]


def test_features_decide():
    graph = chain(8)
    x = torch.zeros(8, 3)
    x[6] = 1
    data = Data(x=x, edge_index=torch.stack([graph.src, graph.dst]), num_nodes=8)
    first = priority(data, rounds=1, batches=8).rounds[0][0]
    assert first.nodes.tolist() == [6]  # the only nodes that change are 6 and its neighbours, 6 the most
    assert priority(graph, rounds=1, batches=8).rounds[0][0].nodes.tolist() != [6]


def test_sparse_features_decide_as_dense_ones_do():
    graph = chain(6)
    x = torch.eye(6)[:, :4]
    dense = Data(x=x, edge_index=torch.stack([graph.src, graph.dst]), num_nodes=6)
    sparse = Data(x=x.to_sparse_csr(), edge_index=dense.edge_index, num_nodes=6)
    nodes = [[phase.nodes.tolist() for phase in priority(data, 1, 3).rounds[0]] for data in (dense, sparse)]
    assert nodes[0] == nodes[1]


@settings(max_examples=30, deadline=None)
@given(graph=undirected_graphs())
def test_pagerank_is_that_of_networkx(graph):
    wide = nx.MultiDiGraph()
    wide.add_nodes_from(range(graph.num_nodes))
    wide.add_edges_from(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    expected = nx.pagerank(wide, tol=1e-12, max_iter=1000)
    ours = _pagerank(graph) / graph.num_nodes
    assert np.allclose(ours, [expected[node] for node in range(graph.num_nodes)], atol=2e-2 / graph.num_nodes)


@settings(max_examples=30, deadline=None)
@given(graph=undirected_graphs())
def test_batches_fall_in_degree_and_take_all_edges_into_them(graph):
    phases = centrality(graph, rounds=1, batches=3, by="degree").rounds[0]
    degree = graph.in_degree + graph.out_degree
    lowest = [int(degree[phase.nodes].min()) for phase in phases]
    highest = [int(degree[phase.nodes].max()) for phase in phases]
    assert all(low >= high for low, high in zip(lowest, highest[1:], strict=False))
    for phase in phases:
        into = torch.isin(graph.dst, phase.nodes).nonzero().flatten()
        assert sorted(phase.edges.tolist()) == into.tolist()


def test_one_batch_is_synchronous():
    one, all_at_once = centrality(chain(5), 1, batches=1).rounds[0], synchronous(chain(5), 1).rounds[0]
    assert one[0].nodes.tolist() == all_at_once[0].nodes.tolist()
    assert sorted(one[0].edges.tolist()) == sorted(all_at_once[0].edges.tolist())


@pytest.mark.parametrize("option", [{"by": "age"}, {"batches": 0}])
def test_refuses_an_unknown_measure_and_no_batches(option):
    with pytest.raises(ValueError, match=f"`{next(iter(option))}` must be"):
        centrality(chain(3), **option)
