import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from gpnn.schedule import centrality, synchronous
from gpnn.schedule.centrality import _pagerank
from tests.oracle.small_graphs import chain, undirected_graphs


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
