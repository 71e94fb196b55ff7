import numpy as np
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from gpnn.schedule import priority
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
