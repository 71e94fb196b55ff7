"""Recall at k against the slow oracle; worked examples stand with DIEL's."""

import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import load_dataset, recall_at_k
from tests.oracle import recall as oracle


@pytest.fixture(scope="module")
def data() -> Data:
    return load_dataset("diel_like", scale=0.001)


@pytest.mark.parametrize("k", [1, 10, 100, 240, 10_000])
def test_is_the_oracle_s(data: Data, k: int) -> None:
    probabilities = torch.rand(data.num_nodes, 4, generator=torch.Generator().manual_seed(k)).softmax(dim=1)
    assert recall_at_k(data, probabilities, k) == pytest.approx(oracle.recall_at_k(data, probabilities, k))


def test_equal_scores_are_taken_in_order(data: Data) -> None:
    probabilities = torch.full((data.num_nodes, 4), 0.25)
    assert recall_at_k(data, probabilities, 50) == pytest.approx(oracle.recall_at_k(data, probabilities, 50))


def test_rises_with_k(data: Data) -> None:
    probabilities = torch.rand(data.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    found = [recall_at_k(data, probabilities, k) for k in (1, 50, 500, 5000)]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("shape", "k", "message"),
    [
        ((4373, 3), None, r"`probabilities` must have shape \[4373, 4\]\. Got \[4373, 3\]\."),
        ((4373, 4), 0, r"`k` must be at least 1\. Got 0\."),
    ],
)
def test_refuses(data: Data, shape: tuple[int, int], k: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recall_at_k(data, torch.ones(shape), k)


def test_refuses_data_without_gold() -> None:
    with pytest.raises(ValueError, match=r"`data` must have gold pairs, as diel and diel_like have\. Got none\."):
        recall_at_k(load_dataset("chain"), torch.ones(1000, 2))
