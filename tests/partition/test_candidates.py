import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gpnn.partition import candidates
from gpnn.partition.candidates import as_nodes, draw_seeds, training_nodes


def _pointers(degree: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(degree)])


def test_the_training_mask_comes_first():
    data = Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, -1]), num_nodes=3)
    assert training_nodes(data).tolist() == [0, 1]
    data.train_mask = torch.tensor([False, True, False])
    assert training_nodes(data).tolist() == [1]


@pytest.mark.parametrize(
    "fields",
    [{}, {"train_mask": torch.zeros(3, dtype=torch.bool)}, {"y": torch.zeros(3, 2)}, {"y": torch.zeros(3)}],
)
def test_without_labels_there_are_none(fields):
    assert training_nodes(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3, **fields)) is None


def test_masks_of_node_types_follow_each_other():
    data = HeteroData()
    data["paper"].num_nodes = 2
    data["author"].num_nodes = 3
    data["author"].train_mask = torch.tensor([True, False, True])
    assert training_nodes(data).tolist() == [2, 4]


def test_a_mask_must_be_boolean():
    with pytest.raises(ValueError, match=r"`train_mask` must be a bool mask \[N\]. Got torch.int64, \[2\]."):
        as_nodes(torch.tensor([0, 1]))


def test_seeds_are_distinct_and_only_candidates():
    nodes = np.array([1, 3, 5])
    for seed in range(20):
        drawn = draw_seeds(_pointers([4, 1, 4, 2, 4, 3]), 3, np.random.default_rng(seed), nodes)
        assert sorted(drawn.tolist()) == [1, 3, 5]


def test_the_first_seed_is_drawn_in_proportion_to_degree():
    """Degrees 1, 2, 3, 4: expected shares of 4,000 draws are 0.1 to 0.4, with a deviation below 0.008."""
    generator = np.random.default_rng(0)
    ptr = _pointers([1, 2, 3, 4])
    first = [draw_seeds(ptr, 1, generator, None)[0] for _ in range(4000)]
    assert np.bincount(first) / 4000 == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.03)


def test_the_second_seed_is_drawn_without_replacement():
    """Degrees 6, 3, 1: P(second is 1 | first is 0) = 3 / 4."""
    generator = np.random.default_rng(0)
    ptr = _pointers([6, 3, 1])
    pairs = [tuple(draw_seeds(ptr, 2, generator, None)) for _ in range(4000)]
    after_first = [second for first, second in pairs if first == 0]
    assert np.mean(np.array(after_first) == 1) == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("chunk", [2, 3, 1000])
def test_degree_zero_comes_only_when_the_others_are_used_up(monkeypatch, chunk):
    monkeypatch.setattr(candidates, "_CHUNK", chunk)
    ptr = _pointers([0, 1, 0, 1, 0, 5, 0, 0])
    for seed in range(20):
        drawn = draw_seeds(ptr, 5, np.random.default_rng(seed), None).tolist()
        assert sorted(drawn[:3]) == [1, 3, 5]
        assert set(drawn[3:]) <= {0, 2, 4, 6, 7}


def test_chunks_do_not_change_the_draw(monkeypatch):
    ptr = _pointers([3, 1, 4, 1, 5, 9, 2, 6, 0, 0])
    whole = [draw_seeds(ptr, 4, np.random.default_rng(seed), None).tolist() for seed in range(10)]
    monkeypatch.setattr(candidates, "_CHUNK", 3)
    assert whole == [draw_seeds(ptr, 4, np.random.default_rng(seed), None).tolist() for seed in range(10)]


def test_a_large_pool_is_searched_without_sorting_it():
    generator = np.random.default_rng(0)
    degree = np.zeros(1000, np.int64)
    degree[[7, 70, 700]] = 1
    assert sorted(draw_seeds(_pointers(degree.tolist()), 3, generator, None).tolist()) == [7, 70, 700]


def test_too_few_nodes_is_an_error():
    with pytest.raises(ValueError, match=r"`k` must be at most the 2 nodes. Got 3."):
        draw_seeds(_pointers([1, 1]), 3, np.random.default_rng(0), None)
