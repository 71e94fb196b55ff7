"""Splits: sizes, classes, seeds, and masks that never overlap."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gpnn.data.splits import GraphFacts, homophily, split_fractions, split_mask, split_per_class
from gpnn.graph import as_graph

LABELS = torch.tensor([0] * 10 + [1] * 6 + [-1] * 4 + [2] * 5)


def test_each_class_trains_equally() -> None:
    train, val, test = split_per_class(LABELS, per_class=3, num_val=4, num_test=5, seed=1)
    assert LABELS[train].bincount().tolist() == [3, 3, 3]
    assert (int(val.sum()), int(test.sum())) == (4, 5)


def test_the_rest_tests_when_no_number_is_given() -> None:
    split = split_per_class(LABELS, per_class=3, num_val=4)
    assert [int(mask.sum()) for mask in split] == [9, 4, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_class": 6, "num_val": 1}, r"`per_class` must be at most the 5 labelled nodes of class 2\. Got 6\."),
        ({"per_class": 1, "num_val": 9, "num_test": 10}, r"must be at most the 18 nodes left\. Got 19\."),
    ],
)
def test_too_much_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_per_class(LABELS, **options)


def test_no_labels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`per_class` must be at most the 0 labelled nodes"):
        split_per_class(torch.tensor([-1, -1]), per_class=1, num_val=0)


def test_fractions_hold_in_each_class() -> None:
    train, val, test = split_fractions(LABELS, train=0.4, val=0.2, seed=3)
    assert LABELS[train].bincount().tolist() == [4, 2, 2]
    assert LABELS[val].bincount().tolist() == [2, 1, 1]
    assert LABELS[test].bincount().tolist() == [4, 3, 2]


def test_a_small_class_trains_at_least_once() -> None:
    train, _, _ = split_fractions(LABELS, train=0.01)
    assert LABELS[train].bincount().tolist() == [1, 1, 1]


@pytest.mark.parametrize("shares", [(0.0, 0.2), (0.9, 0.2), (0.5, -0.1)])
def test_shares_that_do_not_add_up(shares: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must be shares that sum to at most 1"):
        split_fractions(LABELS, train=shares[0], val=shares[1])


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_masks_part_the_labelled_nodes(labels: list[int], seed: int) -> None:
    y = torch.tensor(labels)
    split = split_fractions(y, seed=seed)
    assert torch.equal(sum(mask.int() for mask in split), (y >= 0).int())
    again = split_fractions(y, seed=seed)
    assert all(torch.equal(one, other) for one, other in zip(split, again))


def test_seeds_differ() -> None:
    first, second = (split_per_class(LABELS, per_class=3, num_val=4, seed=seed) for seed in (0, 1))
    assert not torch.equal(first.train_mask, second.train_mask)


def graph(**changes) -> Data:
    given = {
        "x": torch.tensor([[1.0, 0.0], [0.0, 0.0], [2.0, 3.0], [0.0, 1.0]]),
        "y": torch.tensor([0, 0, 1, 1]),
        "edge_index": torch.tensor([[0, 1, 2, 3, 0], [1, 2, 0, 2, 0]]),
        "train_mask": torch.tensor([True, True, True, False]),
        "val_mask": torch.tensor([False, False, False, True]),
    }
    return Data(**{**given, **changes})


def test_facts_by_hand():
    assert GraphFacts.of(graph()) == GraphFacts(
        num_nodes=4,
        num_columns=2,
        num_labels=3,
        labels_per_class=1.5,
        num_validation=1,
        rows_differ=True,
        can_self_train=True,
    )
    for other in (torch.tensor([0.5, 1.5, 2.5, 3.5]), torch.tensor([[1, 1], [0, 1], [1, 0], [0, 0]])):
        assert not GraphFacts.of(graph(y=other)).can_self_train


def test_assortativity_is_the_homophily_above_chance():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]]).repeat(1, 14)
    found = GraphFacts.of(graph(edge_index=edges)).assortativity
    assert found == pytest.approx((1 / 3 - 5 / 9) / (1 - 5 / 9))  # two ends of three are of class 0
    assert GraphFacts.of(graph(edge_index=edges[:, :39])).assortativity is None


def test_labels_outside_the_training_nodes_change_nothing():
    assert GraphFacts.of(graph(y=torch.tensor([0, 0, 1, 0]))) == GraphFacts.of(graph())


def test_without_features_or_splits():
    facts = GraphFacts.of(Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1]), num_nodes=2))
    assert (facts.num_columns, facts.num_labels, facts.num_validation) == (0, 0, 0)
    assert facts.assortativity is None


def test_several_labels_and_numbers():
    several = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    data = graph(y=several)
    assert homophily(several, as_graph(data), split_mask(data, "train")) == 2 / 3
    facts = GraphFacts.of(data)
    assert (facts.num_labels, facts.labels_per_class, facts.assortativity) == (3, 2.0, None)  # four labels of two kinds
    numbers = GraphFacts.of(graph(y=torch.tensor([0.5, 1.5, 2.5, float("nan")], dtype=torch.float64)))
    assert numbers.assortativity is None
    assert (numbers.labels_per_class, numbers.num_validation) == (3.0, 0)
