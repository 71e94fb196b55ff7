import pytest
import torch
from torch_geometric.data import Data

from gpnn.build import describe_data
from gpnn.config import Config


def test_figures_by_hand():
    data = Data(
        x=torch.tensor([[1.0, 0.0]] * 4),
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 1]]),
        y=torch.tensor([0, 1, -1, 1]),
        train_mask=torch.tensor([True, True, False, False]),
        num_classes=2,
        class_names=["cat", "dog"],
    )
    figures = describe_data(Config(), data)
    expected = {
        "nodes": 4,
        "edges": 3,
        "self-loops": 1,
        "isolated nodes": 2,
        "components": 3,
        "largest component": 2,
        "features": 2,
        "share of non-zeros": 0.5,
        "labelled nodes": 3,
        "  class dog": 2,
        "train nodes": 2,
        "val nodes": 0,
        "homophily (edges within a class)": 0.0,
        "subgraphs chosen": 2,
    }
    assert {name: figures[name] for name in expected} == expected


def test_a_graph_without_labels_or_features():
    figures = describe_data(Config(), Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2))
    assert figures["features"] == 0
    assert "classes" not in figures


def test_several_labels_a_node_by_hand():
    data = Data(
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]]),
        y=torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [-1.0, -1.0]]),
        num_nodes=4,
        num_classes=2,
    )
    figures = describe_data(Config(), data)
    expected = {"labelled nodes": 3, "  class 0": 1, "  class 1": 2}
    assert {name: figures[name] for name in expected} == expected
    assert figures["homophily (edges within a class)"] == pytest.approx(
        1 / 3
    )  # of 0→1, 1→2 and 2→0; node 3 is unlabelled
