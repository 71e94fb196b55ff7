import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data

from experiments.baselines import fit_predict
from experiments.baselines.diel import walk_with_restart
from experiments.baselines.visible import Labelled


def test_two_steps_of_the_walk_by_hand() -> None:
    chain = csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float32))
    found = walk_with_restart(chain, Labelled(np.array([0]), np.array([0])), 2, restart=0.5, steps=2)
    # step 1: ½ at node 0, ½ at node 1; step 2: ½ + ½·½·½, ½·½, ½·½·½
    np.testing.assert_allclose(found, [[0.625, 0], [0.25, 0], [0.125, 0]])


def test_without_features_the_nearer_seed_wins() -> None:
    """Lists 0 and 2 are seeds of class 0 and 1; list 1 names the items of both, 3 and 4; list 5 names item 3."""
    edges = torch.tensor([[0, 1, 2, 1, 5], [3, 3, 4, 4, 3]])
    train = torch.tensor([True, False, True, False, False, False])
    data = Data(edge_index=edges, y=torch.tensor([0, -1, 1, -1, -1, -1]), train_mask=train, num_nodes=6)
    found = fit_predict("diel", data)
    assert found.argmax(1)[[0, 2, 3, 4, 5]].tolist() == [0, 1, 0, 1, 0]


def test_words_of_lists_that_the_walk_reached_teach_the_classifier() -> None:
    """List 1 shares an item with list 0 and a word with list 2, which no edge reaches and no label names."""
    edges = torch.tensor([[0, 1, 3], [5, 5, 6]])
    words = torch.zeros(7, 4)
    words[0, 0] = words[1, 1] = words[2, 1] = words[3, 2] = 1
    train = torch.tensor([True, False, False, True, False, False, False])
    data = Data(x=words, edge_index=edges, y=torch.tensor([0, -1, -1, 1, -1, -1, -1]), train_mask=train)
    assert fit_predict("diel", data)[2, 0] > 0.5
    assert fit_predict("feat", data)[2, 0] == 0.5
