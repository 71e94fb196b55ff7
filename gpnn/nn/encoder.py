"""Encoder and head: from features, or nothing but its node, to the initial states; from states to scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from gpnn.check import check_choice
from gpnn.kernels.autograd import affine
from gpnn.nn.layers import FeatureLinear, MaskKey, drop_entries, glorot

INPUT_LAYER, HIDDEN_LAYER = 0, 300  # layers of the random masks; hidden layers count on from theirs


class Encoder(nn.Module):
    """Features to states: a sparse-aware linear map, through ReLU layers where there are any.

    Args:
        in_channels: number of features F.
        hidden: widths of the ReLU layers.
        out_channels: width of the states, d.
    """

    def __init__(self, in_channels: int, hidden: Sequence[int], out_channels: int, generator: torch.Generator) -> None:
        super().__init__()
        widths = [*hidden, out_channels]
        self.first = FeatureLinear(in_channels, widths[0], generator)
        self.weights = nn.ParameterList(glorot(a, b, generator) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])

    def forward(self, x: Tensor, input_dropout: float, dropout: float, key: MaskKey | None) -> Tensor:
        """The states, `[N, d]`."""
        return self.refine(self.first(x, input_dropout, key, INPUT_LAYER), dropout, key)

    def refine(self, state: Tensor, dropout: float = 0.0, key: MaskKey | None = None) -> Tensor:
        """The states, `[N, d]`, of what the first map gave."""
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            hidden = drop_entries(state.relu(), dropout, key, HIDDEN_LAYER + number)
            state = affine(bias, hidden, weight)
        return state


SCALES = ("unit", "none")
_CHUNK = 65536  # rows drawn at a time


class NodeEmbedding(nn.Module):
    """A learnable vector per node, started from its features where it has any (Section "Node Features" of the paper).

    A row of features as wide as the embedding starts it as it is, a narrower one is padded with zeros, and a wider one
    goes through a fixed random projection that keeps expected norms, and distances approximately
    (Johnson and Lindenstrauss 1984). All other nodes start at random.

    Args:
        num_nodes: number of nodes N of the graph that the embeddings belong to; it must be given.
        channels: width d.
        generator: where random starts come from.
        features: features to start from, dense or sparse, `[N, F]`, or None.
        nodes: the nodes whose embeddings this process holds, in the order of their rows, `[n]`; None: all. Each starts
            as it would among all; `features` are then theirs, `[n, F]`.
        scale: "unit": rows of features are scaled to norm one, random entries are uniform in ±1/√d; "none": features
            are taken as they are, as in the paper, and random entries are uniform in ±1, as in the authors' code.
    """

    def __init__(
        self,
        num_nodes: int | None,
        channels: int,
        generator: torch.Generator,
        features: Tensor | None = None,
        nodes: Tensor | None = None,
        scale: str = "unit",
    ) -> None:
        super().__init__()
        check_choice("embedding_scale", scale, SCALES)
        if num_nodes is None:
            raise ValueError("Embeddings need `num_nodes`. Got None.")
        rows = num_nodes if nodes is None else len(nodes)
        if features is not None and features.shape[0] != rows:
            raise ValueError(f"`features` must have a row for each of the {rows} nodes. Got {features.shape[0]}.")
        self.nodes = nodes
        weight = _draw_rows(num_nodes, channels, generator, nodes) * 2 - 1
        if scale == "unit":
            weight /= channels**0.5
        if features is not None:
            projected = _project(features, channels, generator)
            norm = projected.norm(dim=1, keepdim=True)
            start = projected / norm.clamp(min=1e-12) if scale == "unit" else projected
            weight = torch.where(norm > 0, start, weight)
        self.weight = nn.Parameter(weight)

    def forward(self, num_nodes: int) -> Tensor:
        """All embeddings, `[N, d]`.

        Raises:
            ValueError: when the graph has another number of nodes.
        """
        if num_nodes != self.weight.shape[0]:
            raise ValueError(
                f"Embeddings belong to one graph of {self.weight.shape[0]} nodes; a model that is to run on others "
                f"must take features as input. Got a graph of {num_nodes} nodes."
            )
        return self.weight


def _draw_rows(num_nodes: int, channels: int, generator: torch.Generator, nodes: Tensor | None) -> Tensor:
    """Uniform draws, `[n, d]`: those of `nodes` among the draws of all, which are never held at once."""
    if nodes is None:
        return torch.rand(num_nodes, channels, generator=generator)
    drawn = torch.empty(len(nodes), channels)
    ordered, rows = nodes.cpu().sort()
    for start in range(0, num_nodes, _CHUNK):
        chunk = torch.rand(min(_CHUNK, num_nodes - start), channels, generator=generator)
        first, last = torch.searchsorted(ordered, torch.tensor([start, start + _CHUNK])).tolist()
        drawn[rows[first:last]] = chunk[ordered[first:last] - start]
    return drawn


def _project(features: Tensor, channels: int, generator: torch.Generator) -> Tensor:
    """The features in `channels` columns, `[N, d]`."""
    width = features.shape[1]
    if width <= channels:
        dense = features.to_dense() if features.layout != torch.strided else features
        return torch.nn.functional.pad(dense.float(), (0, channels - width))
    projection = torch.randn(width, channels, generator=generator) / channels**0.5
    return features.float() @ projection


class Head(nn.Module):
    """Zero or more tanh layers and a linear one, over the state and, beside it, the input.

    Args:
        state_channels: width of the state, d.
        out_channels: number of scores, C.
        hidden: widths of the tanh layers.
        beside: width of what is concatenated to the state, 0 for nothing.
    """

    def __init__(
        self,
        state_channels: int,
        out_channels: int,
        generator: torch.Generator,
        *,
        hidden: Sequence[int] = (),
        beside: int = 0,
    ) -> None:
        super().__init__()
        widths = [state_channels, *hidden, out_channels]
        self.weights = nn.ParameterList(glorot(a, b, generator) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.beside = FeatureLinear(beside, widths[1], generator, bias=False) if beside else None

    def forward(
        self,
        state: Tensor,
        beside: Tensor | None = None,
        p: float = 0.0,
        key: MaskKey | None = None,
        layer: int = 0,
    ) -> Tensor:
        """The scores, `[N, C]`; entries of the state are dropped with probability `p`."""
        out = affine(self.biases[0], drop_entries(state, p, key, layer), self.weights[0])
        if self.beside is not None:
            assert beside is not None
            out = out + self.beside(beside, p, key, layer + 1)
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:]):
            out = affine(bias, out.tanh(), weight)
        return out


class LastState(nn.Module):
    """The state after the last round."""

    collects = False

    def forward(self, states: list[Tensor]) -> Tensor:
        return states[-1]


class MeanState(nn.Module):
    """The average of the initial state and the states after each round (GRAND's propagation)."""

    collects = True

    def forward(self, states: list[Tensor]) -> Tensor:
        total = states[0]
        for state in states[1:]:
            total = total + state
        return total / len(states)


class LargestState(nn.Module):
    """The largest of the states after each round, channel by channel (jumping knowledge, Xu et al. 2018)."""

    collects = True

    def forward(self, states: list[Tensor]) -> Tensor:
        return torch.stack(states[1:]).amax(0)


class JoinedState(nn.Module):
    """The states after each round side by side, `[N, T · d]` (jumping knowledge, Xu et al. 2018).

    Args:
        num_rounds: number of rounds T, which must be given.
    """

    collects = True

    def __init__(self, num_rounds: int | None) -> None:
        super().__init__()
        if num_rounds is None:
            raise ValueError("The readout 'concat' needs `num_rounds`. Got None.")
        self.num_rounds = num_rounds

    def forward(self, states: list[Tensor]) -> Tensor:
        if len(states) != self.num_rounds + 1:
            raise ValueError(f"The plan must have {self.num_rounds} rounds, as the head has. Got {len(states) - 1}.")
        return torch.cat(states[1:], dim=1)


class LearnedState(nn.Module):
    """Σ γₜ hₜ with learned γ (GPR-GNN, Chien et al. 2021), started as α(1 − α)ᵗ, the rest on the last state.

    Negative γ distinguish a node from its neighbours, which serves graphs whose neighbours differ.

    Args:
        num_rounds: number of rounds T, which must be given; γ has T + 1 entries, the first for the initial state.
        alpha: α of the start.
    """

    collects = True

    def __init__(self, num_rounds: int | None, alpha: float = 0.1) -> None:
        super().__init__()
        if num_rounds is None:
            raise ValueError("The readout 'learned' needs `num_rounds`. Got None.")
        gamma = alpha * (1 - alpha) ** torch.arange(num_rounds + 1.0)
        gamma[-1] = (1 - alpha) ** num_rounds
        self.gamma = nn.Parameter(gamma)

    def forward(self, states: list[Tensor]) -> Tensor:
        if len(states) != self.gamma.numel():
            expected, got = self.gamma.numel() - 1, len(states) - 1
            raise ValueError(f"The plan must have {expected} rounds, as the learned readout has. Got {got}.")
        total = self.gamma[0] * states[0]
        for weight, state in zip(self.gamma[1:], states[1:]):
            total = total + weight * state
        return total


READOUTS: dict[str, Callable[[int | None], nn.Module]] = {
    "last": lambda num_rounds: LastState(),
    "mean": lambda num_rounds: MeanState(),
    "max": lambda num_rounds: LargestState(),
    "concat": JoinedState,
    "learned": LearnedState,
}
