"""GGNN: gated graph neural network, the paper's model under synchronous propagation (Li et al. 2015)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from experiments.baselines.graph_network import train_network
from gpnn.pipeline import Pipeline

if TYPE_CHECKING:
    from torch_geometric.data import Data


def ggnn(
    data: Data,
    *,
    seed: int = 0,
    rounds: int = 5,
    hidden_channels: int = 128,
    learning_rate: float = 0.01,
    weight_decay: float = 7e-4,
    epochs: int = 100,
    patience: int = 0,
    model: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> Tensor:
    """The class probabilities of a gated graph neural network, `[N, C]`.

    Li et al. 2015 as the paper runs it: a GRU shared by all steps, mean messages, a linear output of state and
    features. Settings are the paper's for Cora (appendix, Hyperparameters): 128 channels, Adam at 0.01, at most 100
    epochs, weight decay 7·10⁻⁴ (Citeseer 5·10⁻⁴, Pubmed 9·10⁻⁴, NELL 7·10⁻⁴ with 512 channels and 300 epochs).

    Args:
        data: without features each node has an embedding.
        seed: of the weights.
        rounds: propagation steps T.
        hidden_channels: width of the states.
        learning_rate: of Adam.
        weight_decay: wd, for wd·½‖w‖².
        epochs: the most epochs.
        patience: epochs without improvement after which to stop; 0 never stops early.
        model: further arguments of :class:`gpnn.nn.GPNN`.
        device: where to train.
    """
    pipeline = Pipeline(
        schedule="synchronous",
        rounds=rounds,
        hidden_channels=hidden_channels,
        model_options=model or {},
        seed=seed,
        device=device,
    )
    recipe = {"learning_rate": learning_rate, "weight_decay": weight_decay, "epochs": epochs, "patience": patience}
    return train_network(data, pipeline, recipe=recipe)
