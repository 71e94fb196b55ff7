import numpy as np
import pytest
import torch
from scipy.sparse import random_array
from torch_geometric.nn import GCNConv, SAGEConv

from experiments.harness.run import run_cell
from experiments.harness.spec import Cell
from experiments.peers.networks import Convolution, adjacency, neighbour_columns
from experiments.peers.peer import METHODS, PUBLISHED, _widest, run_peer
from gpnn.data.features import from_scipy
from gpnn.graph import Graph


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "trials", "epochs"), [*((each, 6, 12) for each in METHODS), *((each, 1, 40) for each in PUBLISHED)]
)
def test_every_method_has_its_trials_and_learns(planted, method, trials, epochs):
    found = run_peer(method, planted, 0, epochs=epochs)
    assert found["trials"] == trials
    assert found["test_accuracy"] > 0.4
    assert found["metric"] == "accuracy"


@pytest.mark.parametrize(("name", "theirs"), [("gcn", GCNConv), ("sage", SAGEConv)])
def test_convolutions_are_those_of_pytorch_geometric(name, theirs):
    graph = Graph([0, 1, 2, 3], [1, 2, 3, 1], num_nodes=5).to_undirected()
    ours, peer, x = Convolution(3, 2, name), theirs(3, 2), torch.randn(5, 3)
    own = dict(peer.state_dict())
    main = own["lin.weight"] if name == "gcn" else own["lin_l.weight"]
    given = {"main.weight": main, "main.bias": own["bias"] if name == "gcn" else own["lin_l.bias"]}
    ours.load_state_dict(given if name == "gcn" else given | {"own.weight": own["lin_r.weight"]})
    expected = peer(x, torch.stack([graph.src, graph.dst]))
    torch.testing.assert_close(ours(x, adjacency(graph, name)), expected)


def test_the_columns_that_vary_most_are_the_same_sparse_and_dense():
    words = random_array((400, 350), density=0.1, format="csr", rng=np.random.default_rng(0))
    dense, sparse = (_widest(from_scipy(words, sparse=each)) for each in (False, True))
    assert dense.shape == sparse.shape == (400, 300)
    torch.testing.assert_close(dense.sum(1), sparse.sum(1))


def test_columns_of_neighbours_by_hand():
    x = torch.tensor([[1.0], [3.0], [5.0]])
    found = neighbour_columns(x, torch.tensor([[0, 1], [1, 2]]), 3)
    assert found.tolist() == [[1.0, 3.0, 1.0], [3.0, 3.0, 2.0], [5.0, 3.0, 1.0]]


def test_the_race_of_a_table_is_the_estimator_s():
    small = {"name": "planted", "num_nodes": 120, "num_classes": 3, "num_features": 8, "label_rate": 0.3}
    found = run_cell(Cell("row", "column", 0, {"kind": "race", "recipe": "columns", "data": small}))
    assert found["recipe"] == "columns"
    assert 0 <= found["test_accuracy"] <= 1


def test_a_peer_takes_the_device_that_is_asked_for():
    small = {"name": "planted", "num_nodes": 60, "num_classes": 3, "num_features": 8}
    cell = Cell("row", "column", 0, {"kind": "peer", "method": "gcn", "data": small, "options": {"epochs": 1}})
    assert run_cell(cell, "cpu")["device"] == "cpu"
    with pytest.raises(ValueError, match=r"`device` must be auto, cpu, cuda or cuda:N\. Got 'abacus'"):
        run_cell(cell, "abacus")


def test_an_unknown_peer_is_named():
    with pytest.raises(ValueError, match=r"`method` must be one of gcn, .*boosted_trees, .*\. Got 'magic'"):
        run_peer("magic", None, 0)
