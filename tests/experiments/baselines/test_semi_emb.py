import pytest
import torch
from torch_geometric.data import Data

from experiments.baselines import fit_predict


def test_the_embedding_loss_draws_neighbours_together(planted: Data) -> None:
    none = torch.zeros_like(planted.val_mask)
    data = planted.clone()
    data.val_mask = none  # no selection: the last weights
    src, dst = planted.edge_index
    gap = []
    for balance in (0.0, 1.0):
        found = fit_predict("semi_emb", data, steps=150, hidden_channels=8, balance=balance)
        gap.append(float((found[src] - found[dst]).abs().sum(1).mean()))
    assert gap[1] < 0.8 * gap[0]


def test_adaptive_steps_learn_too(planted: Data) -> None:
    options = {"steps": 60, "hidden_channels": 8, "optimizer": "adagrad", "learning_rate": 0.1}
    found = fit_predict("semi_emb", planted, **options).argmax(1)
    assert (found == planted.y)[planted.test_mask].double().mean() > 0.6  # three classes


def test_an_unknown_optimizer_is_named(planted: Data) -> None:
    with pytest.raises(ValueError, match=r"^An optimizer must be one of sgd, adagrad\. Got 'adam'\.$"):
        fit_predict("semi_emb", planted, optimizer="adam")
