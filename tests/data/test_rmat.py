"""R-MAT."""

import pytest
import torch

from gpnn.data import load_dataset
from gpnn.graph import Graph


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
def test_refuses(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset("rmat", **options)
