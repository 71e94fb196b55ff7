"""The embedded default."""

import numpy as np
import pytest
import torch

from gpnn.data import load_dataset
from gpnn.data.digits import _nearest
from gpnn.graph import Graph


def test_statistics() -> None:
    data = load_dataset("digits")
    assert tuple(data.x.shape) == (1797, 64)
    assert (float(data.x.min()), float(data.x.max())) == (0.0, 1.0)
    assert data.num_classes == 10
    assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [100, 300, 1397]
    assert data.y[data.train_mask].bincount().tolist() == [10] * 10


def test_the_graph_is_symmetric_and_everybody_has_ten_neighbours() -> None:
    graph = Graph.from_data(load_dataset("digits"))
    assert int(graph.in_degree.min()) == 10
    assert torch.equal(graph.in_degree, graph.out_degree)
    assert graph.num_edges == graph.to_undirected().num_edges
    assert not (graph.src == graph.dst).any()


def test_neighbours_are_scikit_learn_s() -> None:
    from sklearn.neighbors import kneighbors_graph

    points = np.random.default_rng(0).integers(0, 1000, (60, 5)).astype(float)  # no ties
    wanted = kneighbors_graph(points, 4, include_self=False)
    wanted = wanted.maximum(wanted.T).toarray()
    assert np.array_equal(_nearest(points, 4), np.stack(np.nonzero(wanted)))


def test_ties_go_to_the_smaller_id() -> None:
    points = np.array([[0.0], [2.0], [2.0], [4.0], [9.0]])
    assert _nearest(points, 1).tolist() == [[0, 1, 1, 1, 2, 3, 3, 4], [1, 0, 2, 3, 1, 1, 4, 3]]


def test_the_seed_draws_the_split_only() -> None:
    first, second = load_dataset("digits", seed=1), load_dataset("digits", seed=2)
    assert torch.equal(first.edge_index, second.edge_index)
    assert not torch.equal(first.train_mask, second.train_mask)


def test_too_many_neighbours() -> None:
    with pytest.raises(ValueError, match=r"`neighbors` must be from 1 to 1796\. Got 1797\."):
        load_dataset("digits", neighbors=1797)
