"""GCN: the graph convolutional network of Kipf and Welling (2017)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from experiments.baselines.graph_convolution import GraphConvolution
from experiments.baselines.graph_network import train_network
from experiments.baselines.visible import features, simple
from gpnn.pipeline import Pipeline

if TYPE_CHECKING:
    from torch_geometric.data import Data


def gcn(
    data: Data,
    *,
    seed: int = 0,
    hidden_channels: int = 16,
    dropout: float = 0.5,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    epochs: int = 200,
    patience: int = 0,
    check_every: int = 1,
    device: str = "cpu",
) -> Tensor:
    """The class probabilities of a two-layer graph convolutional network, `[N, C]`.

    Kipf and Welling 2017, equation 9 and section 5.2: 16 hidden units, dropout 0.5, Adam at 0.01 for 200 epochs, weight
    decay 5·10⁻⁴, features scaled to rows of sum one. (For NELL they take 64 units, dropout 0.1, decay 10⁻⁵.) Unlike
    theirs, the decay is on both layers' weights, and the epoch with the best validation accuracy is kept.

    Args:
        data: with features; repeated edges count once.
        seed: of the weights and of the dropout.
        hidden_channels: width of the hidden layer.
        dropout: probability that an entry is dropped.
        learning_rate: of Adam.
        weight_decay: L2 penalty of the weights.
        epochs: the most epochs.
        patience: epochs without improvement after which to stop; 0 never stops early.
        check_every: epochs between two validations; as many as `epochs` keeps the last epoch, as theirs does.
        device: where to train.
    """
    features(data, "gcn")
    data = simple(data)
    recipe = {"learning_rate": learning_rate, "weight_decay": weight_decay, "epochs": epochs, "patience": patience}
    recipe["check_every"] = check_every
    pipeline = Pipeline(schedule="synchronous", rounds=1, normalization="symmetric", seed=seed, device=device)
    return convolve(data, pipeline, hidden_channels, dropout, recipe)


def convolve(data: Data, pipeline: Pipeline, hidden_channels: int, dropout: float, recipe: dict[str, float]) -> Tensor:
    """The class probabilities of a :class:`GraphConvolution` whose layers are rounds of a schedule, `[N, C]`."""
    seed = pipeline.seed
    model = GraphConvolution(data.x.shape[1], hidden_channels, data.num_classes, dropout=dropout, seed=seed)
    settings = {"decay_on": "matrices", "clip": 0.0, **recipe}
    return train_network(data, replace(pipeline, self_loops=True), recipe=settings, model=model)
