"""Datasets without files: their statistics, their seeds, and options that are refused."""

import numpy as np
import pytest
import torch

from gpnn.data import load_dataset
from gpnn.data.generators import _nearest, people
from gpnn.data.splits import homophily
from gpnn.graph import Graph, as_graph
from gpnn.train.notes import count_one_way


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


def test_defaults() -> None:
    data = load_dataset("planted")
    graph = Graph.from_data(data)
    assert graph.num_nodes == 20_000
    assert data.y.bincount().tolist() == [2000] * 10
    assert graph.num_edges / graph.num_nodes == pytest.approx(10, rel=0.02)
    assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [200, 2000, 17_800]
    assert data.x.layout == torch.sparse_csr


@pytest.mark.parametrize("mixing", [0.0, 0.3, 1.0])
def test_mixing_is_the_share_of_edges_that_forget_the_class(mixing: float) -> None:
    data = load_dataset("planted", num_nodes=4000, num_classes=4, mixing=mixing)
    src, dst = data.edge_index
    same = (data.y[src] == data.y[dst]).float().mean()
    assert float(same) == pytest.approx(1 - mixing * 3 / 4, abs=0.03)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_noise_is_the_share_of_words_that_forget_the_class(noise: float) -> None:
    data = load_dataset("planted", num_nodes=2000, num_classes=5, num_features=5000, feature_noise=noise)
    owner = torch.repeat_interleave(data.y, data.x.crow_indices().diff())
    own = (data.x.col_indices() // 1000 == owner).float().mean()
    assert float(own) == pytest.approx(1 - noise * 4 / 5, abs=0.03)


def test_label_rate() -> None:
    data = load_dataset("planted", num_nodes=1000, num_classes=2, label_rate=0.25)
    assert data.y[data.train_mask].bincount().tolist() == [125, 125]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_nodes": 0}, r"`num_nodes` must be at least 1\. Got 0\."),
        ({"degree": -1.0}, r"`degree` must be at least 0\. Got -1\.0\."),
        ({"mixing": 1.5}, r"`mixing` must be from 0 to 1\. Got 1\.5\."),
        ({"feature_noise": -0.1}, r"`noise` must be from 0 to 1\. Got -0\.1\."),
        ({"num_features": 3}, r"`num_features` must be at least the 10 classes\. Got 3\."),
        ({"label_rate": 0.0}, r"must be shares that sum to at most 1\. Got 0\.0"),
    ],
)
def test_refuses_planted_options(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset("planted", **options)


def test_a_few_hubs_and_many_small_nodes() -> None:
    graph = Graph.from_data(load_dataset("rmat", scale=12, edge_factor=8))
    assert graph.num_nodes == 4096
    degree = graph.in_degree.sort(descending=True).values.float()
    assert degree[0] > 20 * degree.median()
    assert degree[:41].sum() > 0.1 * degree.sum()  # a hundredth of the nodes has a tenth of the edges


def test_edges_are_distinct_go_both_ways_and_are_no_loops() -> None:
    graph = Graph.from_data(load_dataset("rmat", scale=8))
    assert graph.num_edges == graph.coalesce().num_edges == graph.to_undirected().num_edges
    assert not (graph.src == graph.dst).any()


def test_classes_are_equal_blocks_of_falling_degree() -> None:
    data = load_dataset("rmat", scale=12)
    assert data.y.bincount().tolist() == [1024] * 4
    degree = torch.bincount(data.y[data.edge_index[0]])
    assert degree[0] > degree[1] > degree[3]  # a quadrant's weight falls from a over b and c to d


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 31}, r"`scale` must be from 1 to 30\. Got 31\."),
        ({"edge_factor": 0}, r"`edge_factor` must be at least 1\. Got 0\."),
    ],
)
def test_refuses_rmat_options(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset("rmat", **options)


def test_a_grid_of_two_by_three() -> None:
    data = load_dataset("grid", rows=2, columns=3, num_classes=2)
    pairs = {tuple(sorted(pair)) for pair in data.edge_index.T.tolist()}
    assert pairs == {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    assert data.num_edges == 14
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_chain_has_two_messages_a_link() -> None:
    data = load_dataset("chain", num_nodes=9, num_classes=3)
    assert data.num_edges == 2 * (9 - 1)  # the appendix: 2 (N - 1) messages per round
    assert Graph.from_data(data).in_degree.tolist() == [1, 2, 2, 2, 2, 2, 2, 2, 1]
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_the_links_of_a_chain_take_the_types_in_turn() -> None:
    graph = Graph.from_data(load_dataset("chain", num_nodes=4, num_edge_types=2, num_classes=1))
    types = {(u, v): t for u, v, t in zip(graph.src.tolist(), graph.dst.tolist(), graph.edge_type.tolist())}
    assert types == {(0, 1): 0, (1, 0): 0, (1, 2): 1, (2, 1): 1, (2, 3): 0, (3, 2): 0}
    assert load_dataset("chain", num_nodes=4, num_classes=1).get("edge_type") is None


def test_one_node_has_no_edge() -> None:
    assert load_dataset("chain", num_nodes=1, num_classes=1).num_edges == 0
    assert load_dataset("grid", rows=1, columns=1, num_classes=1).num_edges == 0


@pytest.mark.parametrize(
    ("name", "options"), [("grid", {"rows": 0}), ("chain", {"num_nodes": 0}), ("chain", {"num_edge_types": 0})]
)
def test_refuses_lattice_options(name: str, options: dict) -> None:
    with pytest.raises(ValueError, match=r"must be at least 1\. Got 0\."):
        load_dataset(name, **options)


def share_inside(data) -> float:
    return homophily(data.y, as_graph(data), torch.ones(data.num_nodes, dtype=torch.bool))


@pytest.mark.parametrize("wanted", [0.0, 0.3, 0.9])
def test_the_share_of_acquaintances_in_the_own_group(wanted):
    assert share_inside(people(num_nodes=2000, degree=20.0, homophily=wanted)) == pytest.approx(wanted, abs=0.03)


def test_directed_links_lead_to_the_next_group():
    data = people(homophily=0.0, links="directed")
    assert ((data.y[data.edge_index[1]] - data.y[data.edge_index[0]]) % 4 == 1).all()
    assert count_one_way(Graph.from_data(data)) > 0.9 * data.num_edges
    assert count_one_way(Graph.from_data(people())) == 0


def test_columns_tell_as_much_as_they_are_told_to():
    def distance(signal: float) -> float:
        data = people(num_nodes=4000, num_classes=2, column_signal=signal)
        means = [data.x[data.y == each].mean(0) for each in (0, 1)]
        return float((means[0] - means[1])[:4].abs().max())

    assert distance(0.0) < 0.15 < 0.5 < distance(1.0)


def test_a_number_follows_columns_and_acquaintances():
    data = load_dataset("people", target="number", num_nodes=3000, label_rate=0.5)
    assert data.task == "regression"
    x, y = data.x.numpy(), data.y.numpy()
    degree = np.bincount(data.edge_index[1].numpy(), minlength=3000)
    known = np.stack([x[:, 0] * x[:, 1], degree, np.ones(3000)], 1)
    rest = y - known @ np.linalg.lstsq(known, y, rcond=None)[0]
    assert rest.var() < 0.8 * y.var()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homophily": 1.5}, "`homophily` must be from 0 to 1. Got 1.5"),
        ({"links": "both"}, "`links` must be one of undirected, directed. Got 'both'"),
        ({"target": "text"}, "`target` must be one of class, number. Got 'text'"),
        ({"num_columns": 2}, "`num_columns` must be at least 3. Got 2"),
    ],
)
def test_refuses_options(options, message):
    with pytest.raises(ValueError, match=message):
        people(**options)
