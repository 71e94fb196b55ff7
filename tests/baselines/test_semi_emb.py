import torch
from torch_geometric.data import Data

from gpnn.baselines import fit_predict


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
