"""Grids and chains, by hand."""

import pytest

from gpnn.data import load_dataset
from gpnn.graph import Graph


def test_a_grid_of_two_by_three() -> None:
    data = load_dataset("grid", rows=2, columns=3, num_classes=2)
    pairs = {tuple(sorted(pair)) for pair in data.edge_index.T.tolist()}
    assert pairs == {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    assert data.num_edges == 14
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_chain_has_two_messages_a_link() -> None:
    data = load_dataset("chain", num_nodes=9, num_classes=3)
    assert data.num_edges == 2 * (9 - 1)  # the appendix: 2 (N - 1) messages a round
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
def test_refuses(name: str, options: dict) -> None:
    with pytest.raises(ValueError, match=r"must be at least 1\. Got 0\."):
        load_dataset(name, **options)
