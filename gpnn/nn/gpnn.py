"""GPNN: input, propagation under a plan, output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from gpnn.engine import Plan, propagate
from gpnn.engine.propagate import Runner
from gpnn.nn.cell import Cell, CellBank
from gpnn.nn.dropout import Draw, drop_entries, drop_rows
from gpnn.nn.embedding import NodeEmbedding
from gpnn.nn.features import FeatureLinear
from gpnn.nn.head import Head
from gpnn.nn.message import MESSAGES
from gpnn.nn.parameters import glorot
from gpnn.nn.readout import READOUTS
from gpnn.nn.update import UPDATES

INPUTS = ("features", "embedding", "both")
CONCATENATIONS = ("none", "features", "initial")
PREDICTIONS = ("after", "before")
SHARINGS = ("shared", "round", "kind")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
}
_INPUT, _NODE, _STATE, _HIDDEN, _HEAD = range(5)  # layers of the random masks


class GPNN(nn.Module):
    """A graph partition neural network: it classifies the nodes of any graph under any schedule.

    The schedule is not part of the model: `forward` takes the plan of the graph at hand, so that a model with features
    as input, trained on one graph, runs on another.

    Args:
        in_channels: number of input features F; 0 with embeddings only.
        hidden_channels: width of the states, d.
        out_channels: number of classes C.
        cell: update function, a name of :data:`gpnn.nn.UPDATES`: gru, lstm, mlp, linear, gcnii.
        cell_options: further arguments of the update function.
        message: message function, a name of :data:`gpnn.nn.MESSAGES`: identity, linear, mlp.
        aggregate: mean (by the plan's normalisation), sum, max or min.
        sharing: "shared": one cell for all steps; "round": one a round; "kind": one for each kind of phase.
        num_rounds: number of rounds, needed by sharing "round" and by the readout "learned".
        num_edge_types: number of edge types of the graphs (a plan knows its graph's).
        input: "features": a linear map of them; "embedding": a learnable vector a node; "both": their sum.
        num_nodes: number of nodes, needed by embeddings.
        features: features that embeddings start from, `[N, F]`.
        encoder: widths of ReLU layers between the features and the state.
        predict: "after": the head follows the propagation; "before": the head comes first and its scores propagate.
        activation: what the final state goes through before the head: identity, relu, tanh.
        concat: what stands beside the final state in the head: "none", "features" or "initial" states.
        head: widths of the head's tanh layers.
        readout: last, mean or learned, over the states after each round.
        input_dropout: probability that an entry of the features is dropped.
        state_dropout: probability that an entry of the initial states is dropped before they propagate.
        dropout: probability that an entry of a hidden layer is dropped, in the encoder and before the head.
        drop_node: probability that a whole row of the initial states is dropped (DropNode).
        runner: how the plan is run; see :func:`gpnn.engine.propagate`.
        seed: where the parameters start from.

    Raises:
        ValueError: naming the argument, its choices and the value.

    >>> import gpnn
    >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> plan = gpnn.lower(ring, gpnn.schedule.synchronous(ring, rounds=2))
    >>> gpnn.nn.GPNN(4, 8, 2)(torch.ones(3, 4), plan).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        cell: str = "gru",
        cell_options: Mapping[str, Any] | None = None,
        message: str = "identity",
        aggregate: str = "mean",
        sharing: str = "shared",
        num_rounds: int | None = None,
        num_edge_types: int = 1,
        input: str = "features",
        num_nodes: int | None = None,
        features: Tensor | None = None,
        encoder: Sequence[int] = (),
        predict: str = "after",
        activation: str = "identity",
        concat: str = "features",
        head: Sequence[int] = (),
        readout: str = "last",
        input_dropout: float = 0.0,
        state_dropout: float = 0.0,
        dropout: float = 0.0,
        drop_node: float = 0.0,
        runner: str | Runner | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        _choose("input", input, INPUTS)
        _choose("predict", predict, PREDICTIONS)
        _choose("concat", concat, CONCATENATIONS)
        _choose("activation", activation, ACTIVATIONS)
        _choose("readout", readout, READOUTS)
        _check_sizes(in_channels=in_channels, hidden_channels=hidden_channels, out_channels=out_channels)
        _check_probabilities(
            input_dropout=input_dropout, state_dropout=state_dropout, dropout=dropout, drop_node=drop_node
        )
        if readout == "learned" and num_rounds is None:
            raise ValueError("The readout 'learned' needs `num_rounds`. Got None.")
        generator = torch.Generator().manual_seed(seed)
        state_channels = out_channels if predict == "before" else hidden_channels
        self.input_dropout, self.state_dropout = input_dropout, state_dropout
        self.dropout, self.drop_node = dropout, drop_node
        self.predict, self.activation, self.concat = predict, ACTIVATIONS[activation], concat
        self.runner = runner
        self.encoder = None
        if input != "embedding":
            self.encoder = Encoder(in_channels, encoder, hidden_channels, generator)
        self.embedding = None
        if input != "features":
            if num_nodes is None:
                raise ValueError(f"The input {input!r} needs `num_nodes`. Got None.")
            self.embedding = NodeEmbedding(num_nodes, hidden_channels, generator, features)
        beside = {"none": 0, "features": in_channels, "initial": hidden_channels}[concat]
        self.head = Head(hidden_channels, out_channels, generator, hidden=head, beside=beside)
        arguments = (message, cell, aggregate, dict(cell_options or {}))
        make = lambda: build_cell(*arguments, state_channels, num_edge_types, generator)  # noqa: E731
        self.cell = _share(sharing, make, num_rounds)
        self.readout = READOUTS[readout](num_rounds or 0)

    def forward(self, x: Tensor | None, plan: Plan, draw: Draw | None = None) -> Tensor:
        """The scores of every node, `[N, C]`, in the user's order.

        Args:
            x: features, dense or sparse CSR, `[N, F]`; None with embeddings only.
            plan: the graph's schedule, lowered.
            draw: names the random masks of a training pass; None draws a name from torch's global generator.
        """
        draw = (draw or Draw.random()) if self.training else None
        state = drop_rows(self._initial(x, plan, draw), self.drop_node, draw, _NODE)
        if self.predict == "before":
            return self._propagate(self._score(self.activation(state), state, x, draw), plan)
        final = self._propagate(drop_entries(state, self.state_dropout, draw, _STATE), plan)
        return self._score(self.activation(final), state, x, draw)

    def states(self, x: Tensor | None, plan: Plan) -> Tensor:
        """The final states of every node, `[N, d]`, without random masks: what the head sees."""
        return self._propagate(self._initial(x, plan, None), plan)

    def _initial(self, x: Tensor | None, plan: Plan, draw: Draw | None) -> Tensor:
        parts = []
        if self.encoder is not None:
            if x is None:
                raise ValueError("A model with features as input needs `x`. Got None.")
            parts.append(self.encoder(x, self.input_dropout, self.dropout, draw))
        if self.embedding is not None:
            parts.append(self.embedding(plan.num_nodes))
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def _propagate(self, state: Tensor, plan: Plan) -> Tensor:
        collects = bool(self.readout.collects)
        states = propagate(self.cell, plan, state, runner=self.runner, collect=collects)
        return self.readout([state, *states] if isinstance(states, list) else [states])

    def _score(self, state: Tensor, initial: Tensor, x: Tensor | None, draw: Draw | None) -> Tensor:
        beside = {"none": None, "features": x, "initial": initial}[self.concat]
        return self.head(state, beside, self.dropout, draw, _HEAD)


class Encoder(nn.Module):
    """Features to states: a sparse-aware linear map, through ReLU layers where asked for.

    Args:
        in_channels: number of features F.
        hidden: widths of the ReLU layers.
        out_channels: width of the states, d.
        generator: where the weights come from.
    """

    def __init__(self, in_channels: int, hidden: Sequence[int], out_channels: int, generator: torch.Generator) -> None:
        super().__init__()
        widths = [*hidden, out_channels]
        self.first = FeatureLinear(in_channels, widths[0], generator)
        self.weights = nn.ParameterList(glorot(a, b, generator) for a, b in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])

    def forward(self, x: Tensor, input_dropout: float, dropout: float, draw: Draw | None) -> Tensor:
        """The states, `[N, d]`."""
        state = self.first(x, input_dropout, draw, _INPUT)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            hidden = drop_entries(state.relu(), dropout, draw, 100 * _HIDDEN + number)
            state = torch.addmm(bias, hidden, weight)
        return state


def build_cell(
    message: str,
    update: str,
    aggregate: str,
    options: Mapping[str, Any],
    channels: int,
    num_edge_types: int,
    generator: torch.Generator,
) -> Cell:
    """A cell from the names of its message and update functions."""
    _choose("message", message, MESSAGES)
    _choose("cell", update, UPDATES)
    sender = MESSAGES[message](channels, num_edge_types, generator)
    try:
        updater = UPDATES[update](channels, generator, **options)
    except TypeError as error:
        raise ValueError(f"`cell_options` must be arguments of the cell {update!r}. Got {dict(options)}.") from error
    return Cell(sender, updater, aggregate)


def _share(sharing: str, make: Callable[[], Cell], num_rounds: int | None) -> Cell | CellBank:
    _choose("sharing", sharing, SHARINGS)
    if sharing == "shared":
        return make()
    if sharing == "kind":
        kinds = ("inside", "cut", "gather", "scatter")
        return CellBank.by_kind([make() for _ in kinds], kinds)
    if num_rounds is None:
        raise ValueError("The sharing 'round' needs `num_rounds`. Got None.")
    return CellBank.by_round([make() for _ in range(num_rounds)])


def _choose(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}. Got {value!r}.")


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        least = 0 if name == "in_channels" else 1
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}. Got {value}.")


def _check_probabilities(**probabilities: float) -> None:
    for name, p in probabilities.items():
        if not 0 <= p < 1:
            raise ValueError(f"`{name}` must be at least 0 and below 1. Got {p}.")
