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
