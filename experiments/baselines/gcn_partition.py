"""GCN + partition: the graph convolutional network under the partitioned schedule (the paper, Table 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from experiments.baselines.gcn import convolve
from experiments.baselines.visible import features, simple
from gpnn.pipeline import Pipeline

if TYPE_CHECKING:
    from torch_geometric.data import Data


def gcn_partition(
    data: Data,
    *,
    seed: int = 0,
    k: int = 10,
    partition: str = "flood_fill",
    normalization: str = "symmetric_split",
    hidden_channels: int = 16,
    dropout: float = 0.5,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    epochs: int = 200,
    patience: int = 0,
    device: str = "cpu",
) -> Tensor:
    """The class probabilities of a GCN whose layers send inside K subgraphs and then over the cut, `[N, C]`.

    The paper names the method ("GCN with our partition-based schedule", Distantly-Supervised Entity Extraction) and
    says no more: here each of the two layers is one round, T_S = T_C = 1, with the settings of
    :func:`experiments.baselines.gcn.gcn`.

    Args:
        data: with features; repeated edges count once.
        seed: of the partition, the weights and the dropout.
        k: subgraphs K, at most the number of training nodes.
        partition: a partitioner's name.
        normalization: how messages are weighed; see :func:`gpnn.lower`.
        hidden_channels: width of the hidden layer.
        dropout: probability that an entry is dropped.
        learning_rate: of Adam.
        weight_decay: L2 penalty of the weights.
        epochs: the most epochs.
        patience: epochs without improvement after which to stop; 0 never stops early.
        device: where to train.
    """
    features(data, "gcn_partition")
    data = simple(data)
    pipeline = Pipeline(partition=partition, k=k, rounds=1, normalization=normalization, seed=seed, device=device)
    recipe = {"learning_rate": learning_rate, "weight_decay": weight_decay, "epochs": epochs, "patience": patience}
    return convolve(data, pipeline, hidden_channels, dropout, recipe)
