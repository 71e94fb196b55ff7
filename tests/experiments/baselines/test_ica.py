import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from experiments.baselines import fit_predict
from experiments.baselines.ica_kernel import sweep
from gpnn.partition.kernels import stream


def test_a_sweep_adds_the_links_of_the_neighbours_of_the_moment() -> None:
    ptr, index, weight = np.array([0, 1, 3, 4], np.int32), np.array([1, 0, 2, 1], np.int32), np.ones(4, np.float32)
    content = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.0]])
    link = np.array([[1.0, 0.0], [0.0, 1.0]])
    guess, scores = np.array([1, 0, 1]), np.zeros((3, 2))
    sweep(ptr, index, weight, content, link, guess, np.array([1]), scores, stream(0))
    assert guess.tolist() == [1, 1, 1]
    assert scores[1].tolist() == [0.5, 2.0]


def test_links_carry_a_class_to_nodes_without_words() -> None:
    """Two chains 0-1-2 and 3-4-5 whose training nodes 0, 1 and 3, 4 have words; 2 and 5 have neighbours alone."""
    edges = torch.tensor([[0, 1, 3, 4], [1, 2, 4, 5]])
    x = torch.tensor([[1.0, 0], [1, 0], [0, 0], [0, 1], [0, 1], [0, 0]])
    train = torch.tensor([True, True, False, True, True, False])
    data = Data(x=x, edge_index=edges, y=torch.tensor([0, 0, 0, 1, 1, 1]), train_mask=train)
    assert fit_predict("ica", data, link="count", strength=10.0).argmax(1).tolist() == [0, 0, 0, 1, 1, 1]


def test_unknown_link(planted: Data) -> None:
    with pytest.raises(ValueError, match=r"`link` must be one of count, proportion\. Got 'mode'\."):
        fit_predict("ica", planted, link="mode")
