"""GPNN: the paper's own method, a gated network under the partitioned schedule (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from experiments.baselines.graph_network import train_network
from gpnn.pipeline import Pipeline

if TYPE_CHECKING:
    from torch_geometric.data import Data


def gpnn(
    data: Data,
    *,
    seed: int = 0,
    k: int = 10,
    rounds: int = 3,
    intra: int = 1,
    cut: int = 1,
    partition: str = "flood_fill",
    normalization: str = "phase",
    hidden_channels: int = 128,
    learning_rate: float = 0.01,
    weight_decay: float = 7e-4,
    epochs: int = 100,
    patience: int = 0,
    model: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> Tensor:
    """The class probabilities of a graph partition neural network as the paper describes it, `[N, C]`.

    Settings are the paper's for Cora (appendix, Hyperparameters); see
    :func:`experiments.baselines.ggnn.ggnn`. For what this library can do beyond them see :class:`gpnn.GPNNClassifier`.

    Args:
        data: without features each node has an embedding.
        seed: of the partition and of the weights.
        k: subgraphs K, at most the number of training nodes.
        rounds: T.
        intra: T_S.
        cut: T_C.
        partition: a partitioner's name.
        normalization: how messages are weighed; "phase" is the authors' rule.
        hidden_channels: width of the states.
        learning_rate: of Adam.
        weight_decay: wd, for wd·½‖w‖².
        epochs: the most epochs.
        patience: epochs without improvement after which to stop; 0 never stops early.
        model: further arguments of :class:`gpnn.nn.GPNN`.
        device: where to train.
    """
    pipeline = Pipeline(
        partition=partition,
        k=k,
        rounds=rounds,
        schedule_options={"intra": intra, "cut": cut},
        normalization=normalization,
        hidden_channels=hidden_channels,
        model_options=model or {},
        seed=seed,
        device=device,
    )
    recipe = {"learning_rate": learning_rate, "weight_decay": weight_decay, "epochs": epochs, "patience": patience}
    return train_network(data, pipeline, recipe=recipe)
