import pytest
import torch
from torch_geometric.data import Data

from gpnn.data.facts import GraphFacts


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
        density=0.5,
        mean_degree=1.25,
        num_labels=3,
        labels_per_class=1.5,
        homophily=1 / 3,
        num_validation=1,
        rows_differ=True,
    )


def test_assortativity_is_the_homophily_above_chance():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]]).repeat(1, 14)
    found = GraphFacts.of(graph(edge_index=edges)).assortativity
    assert found == pytest.approx((1 / 3 - 5 / 9) / (1 - 5 / 9))  # two ends of three are of class 0
    assert GraphFacts.of(graph(edge_index=edges[:, :39])).assortativity is None


def test_labels_outside_the_training_nodes_change_nothing():
    assert GraphFacts.of(graph(y=torch.tensor([0, 0, 1, 0]))) == GraphFacts.of(graph())


def test_without_features_or_splits():
    facts = GraphFacts.of(Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1]), num_nodes=2))
    assert (facts.num_columns, facts.density, facts.num_labels, facts.num_validation) == (0, 0.0, 0, 0)
    assert facts.homophily is None


def test_several_labels_and_numbers():
    several = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])
    assert GraphFacts.of(graph(y=several)).homophily == 2 / 3
    numbers = GraphFacts.of(graph(y=torch.tensor([0.5, 1.5, 2.5, float("nan")], dtype=torch.float64)))
    assert numbers.homophily is None
    assert (numbers.labels_per_class, numbers.num_validation) == (3.0, 0)
