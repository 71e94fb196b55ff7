"""Soft partitions: their scores, their encoding of the structure, and what they harden to."""

import pytest
import torch

from gpnn import Graph
from gpnn.nn.soft_partition import ASSIGNMENTS, encode_structure, harden
from tests.oracle.small_graphs import ring


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_most_probable_subgraph() -> None:
    part = harden(torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.3, 0.5]]))
    assert (part.labels.tolist(), part.num_parts) == ([1, 0, 2], 3)


def test_no_subgraph_is_empty_where_nodes_are_enough() -> None:
    assert sorted(harden(torch.tensor([[0.9, 0.1]] * 3)).sizes.tolist()) == [1, 2]
    assert harden(torch.tensor([[0.1, 0.8, 0.1]] * 2)).sizes.tolist() == [0, 2, 0]


@pytest.mark.parametrize("name", ASSIGNMENTS)
@pytest.mark.parametrize("num_features", [0, 5])
def test_every_node_has_a_score_for_every_subgraph(name: str, num_features: int) -> None:
    structure = encode_structure(ring(6), seeded(), width=4)
    assignment = ASSIGNMENTS[name](structure, num_features, 3, seeded())
    x = torch.rand(6, num_features, generator=seeded()) if num_features else None
    scores = assignment(x)
    assert scores.shape == (6, 3)
    scores.softmax(1).square().sum().backward()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in assignment.parameters())
    assert torch.equal(ASSIGNMENTS[name](structure, num_features, 3, seeded())(x), scores)


def test_neighbours_are_encoded_alike() -> None:
    """Two cliques of six, joined by one edge, and a node of its own."""
    pairs = [(a, b) for start in (0, 6) for a in range(start, start + 6) for b in range(start, a)] + [(5, 6)]
    src, dst = zip(*pairs)
    code = encode_structure(Graph(src, dst, num_nodes=13), seeded(), width=3)
    assert code.shape == (13, 3)
    assert torch.allclose(code.norm(dim=1), torch.full((13,), 3**0.5))
    alike = code @ code.T / 3
    assert alike[0, 4] > 0.95
    assert alike[7, 11] > 0.95
    assert alike[0, 11] < 0.5


def test_a_graph_with_few_nodes_has_few_vectors() -> None:
    assert encode_structure(Graph([0], [1], num_nodes=3), seeded()).shape == (3, 3)
    assert encode_structure(Graph([], [], num_nodes=1), seeded()).isfinite().all()
