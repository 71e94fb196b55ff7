"""GPNN: input, propagation under a plan, output."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gpnn.check import check_choice, check_probabilities, check_seed, check_sizes
from gpnn.csr import slices
from gpnn.engine import CellLike, Plan, Streamed, propagate, recomputes
from gpnn.engine.blockwise_backward import RowLoss, ends_in_blocks, is_one_blockwise_round
from gpnn.engine.propagate import Runner, streamed_runner
from gpnn.engine.rows import read_rows, step_rows
from gpnn.nn.cell import Cell, DroppedCell, build_cell, share_cells
from gpnn.nn.encoded_source import EncodedSource, place_features
from gpnn.nn.encoder import READOUTS, Encoder, Head, LargestState, NodeEmbedding
from gpnn.nn.layers import (
    BatchNorm,
    FeatureLinear,
    MaskKey,
    PassNorm,
    UnitBatchNorm,
    drop_entries,
    drop_rows,
    is_dense,
    mark_dense,
    state_type,
)
from gpnn.nn.row_chunks import RowFunction, map_rows

INPUTS = ("features", "embedding", "both")
CONCATENATIONS = ("none", "features", "initial")
PREDICTIONS = ("after", "before", "features")
NORMS: dict[str, tuple[Callable[[int], nn.Module], Callable[[int], nn.Module]]] = {  # of propagated features, of states
    "none": (nn.Identity, nn.Identity),
    "batch": (BatchNorm, BatchNorm),
    "pass": (PassNorm, PassNorm),
    "unit": (UnitBatchNorm, nn.Identity),
}
KEPT_SPREAD = 1 << 28  # bytes of propagated features that are kept from one prediction to the next
LARGE_SCORES = 1 << 33  # bytes of the scores of all nodes that stay on a GPU
_NODE_LAYER, _STATE_LAYER, _HEAD_LAYER = 1, 2, 4  # layers of the random masks, besides the encoder's


def _identity(x: Tensor) -> Tensor:
    return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"identity": _identity, "relu": torch.relu, "tanh": torch.tanh}


def _select(x: Tensor, nodes: Tensor | slice, device: torch.device) -> Tensor:
    """The features of some nodes, `[n, F]`, on a device."""
    own = x[nodes] if isinstance(nodes, slice) else x.index_select(0, nodes.to(x.device))
    return mark_dense(own.to(device))


def _at_once(function: RowFunction, rows: list[Tensor | None], key: MaskKey | None) -> Tensor:
    return function(*rows, key)


class GPNN(nn.Module):
    """A graph partition neural network: it classifies the nodes of any graph under any schedule.

    The schedule is not part of the model: `forward` takes the plan of the graph at hand, so that a model with features
    as input, trained on one graph, runs on another.

    Args:
        in_channels: number of input features F; 0 with embeddings only.
        hidden_channels: width of the states, d.
        out_channels: number of classes C.
        cell: update function, a name of :data:`gpnn.nn.UPDATES`: gru, lstm, gcn, sage, mlp, linear, gcnii, max_plus,
            residual, gcn_residual, batch_residual.
        cell_options: further arguments of the update function.
        message: message function, a name of :data:`gpnn.nn.MESSAGES`: identity, linear, mlp.
        aggregate: mean (by the plan's normalisation), sum, max or min.
        sharing: "shared": one cell for all steps; "round": one per round; "kind": one per kind of phase.
        kinds: the kinds of phase that have a cell of their own under "kind", such as `plan.kinds`; others use the first
            cell. None: those of the partitioned schedule.
        num_rounds: number of rounds, needed by sharing "round" and by the readouts "learned" and "concat".
        num_edge_types: number of edge types of the graphs (a plan knows its graph's).
        input: "features": a linear map of them; "embedding": a learnable vector per node; "both": their sum.
        num_nodes: number of nodes, needed by embeddings.
        nodes: the nodes whose embeddings this process holds, `[n]`, where several train together; None: all.
        features: features that embeddings start from, `[N, F]`.
        embedding_scale: how large embeddings start, "unit" or "none"; see :class:`gpnn.nn.encoder.NodeEmbedding`.
        encoder: widths of ReLU layers between the features and the state.
        predict: "after": the head follows the propagation; "before": the head comes first and its scores propagate;
            "features": the features themselves propagate, dense, and the map of them follows (GRAND's order).
        activation: activation function of the final state, before the head: identity, relu, tanh.
        concat: what is concatenated to the final state as input of the head: "none", "features" or "initial" states.
        head: widths of the head's tanh layers.
        readout: last, mean, max, learned or concat, over the states after each round; "concat" joins their columns.
        input_dropout: probability that an entry of the features is dropped.
        state_dropout: probability that an entry of the initial states is dropped before they propagate.
        update_dropout: probability that an entry of an update's change of a state is dropped, in every step.
        dropout: probability that an entry of a hidden layer is dropped, in the encoder and before the head.
        drop_node: probability that a whole row of the initial states is dropped (DropNode).
        norm: "batch": each column that the head sees, and each of the features after they propagated, is standardised
            over the nodes, in training by the pass at hand, later by the running average (Ioffe and Szegedy 2015);
            "pass": later by the last pass, and with one added to the variance, for states that grow with the graph;
            "unit": rows of features that propagated are scaled to length one and then as by "batch", states are not.
        standardize: whether dense features are taken in standard units (:meth:`set_feature_moments`).
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

    selects_rows = True  # `forward` takes `rows`
    keeps_freed = False  # whether a training leaves so much memory free that it may keep what it frees

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
        kinds: Sequence[str] | None = None,
        num_rounds: int | None = None,
        num_edge_types: int = 1,
        input: str = "features",
        num_nodes: int | None = None,
        nodes: Tensor | None = None,
        features: Tensor | None = None,
        embedding_scale: str = "unit",
        encoder: Sequence[int] = (),
        predict: str = "after",
        activation: str = "identity",
        concat: str = "features",
        head: Sequence[int] = (),
        readout: str = "last",
        input_dropout: float = 0.0,
        state_dropout: float = 0.0,
        update_dropout: float = 0.0,
        dropout: float = 0.0,
        drop_node: float = 0.0,
        norm: str = "none",
        standardize: bool = False,
        runner: str | Runner | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_choice("input", input, INPUTS)
        check_choice("predict", predict, PREDICTIONS)
        check_choice("concat", concat, CONCATENATIONS)
        check_choice("activation", activation, ACTIVATIONS)
        check_choice("readout", readout, READOUTS)
        check_choice("norm", norm, NORMS)
        if predict == "features" and input != "features":
            raise ValueError(f"`predict` 'features' needs `input` 'features'. Got {input!r}.")
        if standardize and predict == "features":
            raise ValueError("`standardize` takes features that do not propagate themselves. Got `predict` 'features'.")
        if readout == "concat" and predict != "after":
            raise ValueError(f"`readout` 'concat' needs `predict` 'after'. Got {predict!r}.")
        check_seed("seed", seed)
        check_sizes(in_channels=in_channels, hidden_channels=hidden_channels, out_channels=out_channels)
        check_probabilities(
            input_dropout=input_dropout,
            state_dropout=state_dropout,
            update_dropout=update_dropout,
            dropout=dropout,
            drop_node=drop_node,
        )
        self.input_dropout, self.state_dropout, self.update_dropout = input_dropout, state_dropout, update_dropout
        self.dropout, self.drop_node = dropout, drop_node
        self.predict, self.activation, self.concat = predict, ACTIVATIONS[activation], concat
        self.runner, self.norm = runner, norm
        generator = torch.Generator().manual_seed(seed)
        has_features, has_embedding = input != "embedding", input != "features"
        self.encoder = Encoder(in_channels, encoder, hidden_channels, generator) if has_features else None
        rows = (num_nodes, hidden_channels, generator, features, nodes, embedding_scale)
        self.embedding = NodeEmbedding(*rows) if has_embedding else None
        beside = {"none": 0, "features": in_channels, "initial": hidden_channels}[concat]
        self.readout = READOUTS[readout](num_rounds)
        read = hidden_channels * (num_rounds or 1) if readout == "concat" else hidden_channels  # width of what it gives
        self.head = Head(read, out_channels, generator, hidden=head, beside=beside)
        widths = {"after": hidden_channels, "before": out_channels, "features": in_channels}
        self.state_channels = widths[predict]  # of what propagates
        parts = (message, cell, aggregate, cell_options or {}, self.state_channels, num_edge_types, generator)
        self.cell = share_cells(sharing, lambda: build_cell(*parts), num_rounds, kinds)
        self.feature_norm = NORMS[norm][0](in_channels) if predict == "features" else nn.Identity()
        self.state_norm = NORMS[norm][1](read)
        self._known_spread: tuple[Any, Any, int, Tensor] | None = None
        if standardize:
            for layer in self._feature_layers:
                layer.standardize()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known_spread": None}

    def forward(self, x: Tensor | None, plan: Plan, key: MaskKey | None = None, rows: Tensor | None = None) -> Tensor:
        """The scores of every node, `[N, C]`, in the user's order.

        Args:
            x: features, dense or sparse CSR, `[N, F]`; None with embeddings only.
            plan: the graph's schedule, lowered.
            key: of the random masks of a training pass; None: one from torch's global generator.
            rows: the nodes whose scores are wanted, distinct, `[n]`; None: all.
        """
        key = (key or MaskKey.random())._replace(nodes=plan.nodes) if self.training else None
        x = self._check_features(x, plan)
        if x is not None and self.recomputes_initial_states(x, plan):
            return self._forward_from_features(x, plan, key, rows)
        few = self.predict == "features" and rows is not None and key is None and self.concat != "features"
        if few and not self.maps_first(x):
            spread = mark_dense(self.feature_norm(self._spread(x, plan, None)[rows]))
            return self._by_rows(self._score_features, [spread, None], None)
        scores = self._forward_all(x, plan, key)
        return scores if rows is None else scores[rows]

    def set_feature_scale(self, scale: Tensor | None) -> None:
        """Take features of 8 bits, int8 `[N, F]`, as that many times `scale`, `[F]`; None: features are as they are."""
        if scale is not None and self.predict == "features":
            raise ValueError("Features that propagate must be floating point. Got features of 8 bits.")
        for layer in self._feature_layers:
            layer.scale = None if scale is None else scale.to(layer.weight)

    def set_feature_moments(self, mean: Tensor, deviation: Tensor) -> None:
        """Take dense features as (x − `mean`) / `deviation`, `[F]` each; the model was made with `standardize`."""
        for layer in self._feature_layers:
            assert layer.mean is not None
            assert layer.deviation is not None
            layer.mean.copy_(mean)
            layer.deviation.copy_(deviation)

    @property
    def feature_mean(self) -> Tensor | None:
        """What a column that says nothing has, `[F]`, where features are taken in standard units; None: zeros."""
        return None if self.encoder is None else self.encoder.first.mean

    @property
    def _feature_layers(self) -> list[FeatureLinear]:
        """The layers that read features."""
        beside = self.head.beside if self.concat == "features" else None
        layers = [None if self.encoder is None else self.encoder.first, beside]
        return [layer for layer in layers if layer is not None]

    def copies_features(self, x: Tensor, plan: Plan) -> bool:
        """Whether `x` stays on the host, and the model copies what it needs to the plan's device."""
        runner = streamed_runner(self.runner)
        return runner is not None and runner.features == "cpu" and self.recomputes_initial_states(x, plan)

    def loss(
        self,
        x: Tensor | None,
        plan: Plan,
        rows: Tensor,
        share: Callable[[Tensor, Tensor], Tensor],
        key: MaskKey | None = None,
    ) -> Tensor | None:
        """A loss that is a sum over nodes, forward and backward in one pass; None where the plan does not allow it.

        Args:
            x: features, as of :meth:`forward`.
            plan: the graph's schedule, lowered.
            rows: the nodes, distinct, `[n]`.
            share: of some of the nodes: a function of their scores, `[m, C]`, and of their places in `rows`, `[m]`.
            key: of the random masks; None: one from torch's global generator.
        """
        runner, key = streamed_runner(self.runner), (key or MaskKey.random())._replace(nodes=plan.nodes)
        x = self._check_features(x, plan)
        if x is None or runner is None or not self.reads_rows(plan) or not self.recomputes_initial_states(x, plan):
            return None
        if not plan.num_rounds or torch.is_autocast_enabled(plan.device.type):
            return None
        placed, order = plan.sorted_rows(rows)  # made once: so are the parts of blocks that write them

        def of_states(states: Tensor, places: slice) -> Tensor:
            nodes = rows[order[places]]
            final = self._read_out(states, source, x, nodes, placed.rows[places])
            if self.predict == "after":
                own_key = key._replace(nodes=nodes) if self.training else None
                final = self._score(final, self._beside_rows(x, nodes, plan, own_key), own_key)
            return share(final, order[places])

        source = self._source(x, plan, key if self.training else None, runner)
        own = [each for each in self.readout.parameters() if each.requires_grad]
        row_loss = RowLoss(placed.rows, of_states, (*self._row_parameters(), *own), placed)
        return runner.differentiate(self.masked_cell(plan, key if self.training else None), plan, source, row_loss)

    def maps_first(self, x: Tensor | None) -> bool:
        """Whether the features' map and their propagation may change places, and what propagated is not kept.

        It is kept where it is not large, but for parts of a graph, whose runner must always propagate the same columns.
        """
        assert x is not None
        assert self.encoder is not None
        cell, width = self.cell, self.encoder.first.weight.shape[1]
        whole = self.runner is None or isinstance(self.runner, str | Streamed)
        kept = whole and 4 * x.shape[0] * x.shape[1] <= KEPT_SPREAD
        if self.norm != "none" or width >= x.shape[1] or kept:
            return False
        return isinstance(cell, Cell) and cell.is_linear and not isinstance(self.readout, LargestState)

    def recomputes_initial_states(self, x: Tensor | None, plan: Plan, runner: str | Runner | None = None) -> bool:
        """Whether a runner, None: the model's own, has initial states made of `x` whenever they are needed."""
        streamed = streamed_runner(self.runner if runner is None else runner)
        if streamed is None or streamed.features == "disk" or plan.runners is not None or plan.num_virtual:
            return False
        if x is None or self.encoder is None or self.embedding is not None or self.predict == "features":
            return False
        again = self.cell.residual and not is_one_blockwise_round(plan)  # later rounds read initial states again
        whole = self.norm != "none" or again or self.cell.random
        return not whole and not x.requires_grad and is_dense(x)

    def reads_rows(self, plan: Plan) -> bool:
        """Whether the readout of a node follows from its features and its state after the last round."""
        return not self.readout.collects or plan.num_rounds == 1

    def _read_out(
        self, state: Tensor, source: EncodedSource, x: Tensor, nodes: Tensor | slice, rows: Tensor | slice
    ) -> Tensor:
        """What the readout gives of nodes, which stand in these plan rows, whose last states are given, `[n, s]`."""
        states = [state]
        if self.readout.collects:
            states = [source.encode(_select(x, nodes, source.device), rows), state]
        return self.readout([self.cell.finish(each).to(self.head.weights[0].dtype) for each in states])

    def _forward_from_features(self, x: Tensor, plan: Plan, key: MaskKey | None, rows: Tensor | None) -> Tensor:
        """The scores of some nodes, `[n, C]`; states before the first round are never kept."""
        runner, own_key = streamed_runner(self.runner), key
        assert runner is not None
        if rows is None and key is None and not torch.is_grad_enabled() and self.reads_rows(plan):
            return self._score_all(x, plan)
        wanted = None if rows is None else plan.rows_of(rows)
        source, collects = self._source(x, plan, key, runner), bool(self.readout.collects)
        each = collects and plan.num_rounds > 1
        states = runner.run(self.masked_cell(plan, key), plan, source, collect=each, rows=wanted)
        states = [self.cell.finish(state).to(self.head.weights[0].dtype) for state in states]
        if rows is None:
            states, own = [plan.to_user_order(state) for state in states], x.to(plan.device)
        else:
            own = mark_dense(x.index_select(0, rows.to(x.device)).to(plan.device))
            own_key = None if key is None else key._replace(nodes=rows)
        if collects:
            states = [self._by_rows(self._start, [own], own_key), *states]
        final = self.readout(states)
        if self.predict == "before":
            return final
        return self._by_rows(self._score, [final, self._beside(own, own_key)], own_key)

    @torch.no_grad()
    def score_pieces(self, x: Tensor | None, plan: Plan) -> Iterator[tuple[slice, Tensor]]:
        """The scores of all nodes, `[n, C]`, a range at a time, in order, without gradients and random masks."""
        runner = streamed_runner(self.runner)
        if x is None or runner is None or not self.reads_rows(plan) or not self.recomputes_initial_states(x, plan):
            yield slice(0, plan.num_nodes), self(x, plan)
            return
        source, count = self._source(x, plan, None, runner), plan.num_nodes
        together = math.ceil(runner.scored * count) if is_one_blockwise_round(plan) else count
        for some in slices(count, together):
            few = torch.arange(some.start, some.stop, device=plan.device) if together < count else None
            chosen = None if few is None else plan.rows_of(few)
            (state,) = runner.run(self.cell, plan, source, rows=chosen)
            for nodes in slices(some.stop, step_rows(state.device), some.start):
                rows = plan.rows_of(nodes)
                places = rows if chosen is None else slice(nodes.start - some.start, nodes.stop - some.start)
                final = self._read_out(read_rows(state, places), source, x, nodes, rows)
                yield nodes, self._score_rows(final, x, nodes, plan)
            del state

    def _score_blocks(
        self, x: Tensor, plan: Plan, source: EncodedSource, runner: Streamed
    ) -> Iterator[tuple[Tensor | slice, Tensor]]:
        """The same in the order of the plan, whose lone round is done a range of rows at a time."""
        for rows in slices(plan.num_nodes, step_rows(plan.device)):
            (state,) = runner.run(self.cell, plan, source, rows=torch.arange(rows.start, rows.stop))
            nodes = rows if plan.order is None else plan.order[rows]
            yield nodes, self._score_rows(self._read_out(state, source, x, nodes, rows), x, nodes, plan)

    def _score_rows(self, final: Tensor, x: Tensor, nodes: Tensor | slice, plan: Plan) -> Tensor:
        """The scores of some nodes, `[n, C]`, by what the readout gave, `[n, d]`, without random masks."""
        return final if self.predict != "after" else self._score(final, self._beside_rows(x, nodes, plan, None), None)

    def _score_all(self, x: Tensor, plan: Plan) -> Tensor:
        """The scores of all nodes, `[N, C]`; on the host where they would take much of a GPU's memory."""
        out = None
        pieces: Iterator[tuple[Tensor | slice, Tensor]] = self.score_pieces(x, plan)
        if plan.device.type == "cpu" and is_one_blockwise_round(plan) and ends_in_blocks(plan):
            runner = streamed_runner(self.runner)
            assert runner is not None
            source = self._source(x, plan, None, runner)
            pieces = self._score_blocks(x, plan, source, runner) if source.by_rows else pieces
        for nodes, scores in pieces:
            if out is None:
                large = plan.num_nodes * scores.shape[1] * scores.element_size() > LARGE_SCORES
                device = torch.device("cpu") if large else scores.device
                out = torch.empty(plan.num_nodes, scores.shape[1], dtype=scores.dtype, device=device)
            out[nodes] = scores.to(out.device)
        assert out is not None
        return out

    def _concatenated(self, x: Tensor | None, initial: Tensor) -> Tensor | None:
        """What is concatenated to the final states of nodes with these features and initial states."""
        return {"none": None, "features": x, "initial": initial}[self.concat]

    def _beside(self, x: Tensor, key: MaskKey | None) -> Tensor | None:
        """The same of nodes with these features, whose initial states are made where they are needed."""
        if self.concat == "initial":
            return self._by_rows(lambda rows, key: self._initial(rows, None, key), [x], key)
        return x if self.concat == "features" else None

    def _beside_rows(self, x: Tensor, nodes: Tensor | slice, plan: Plan, key: MaskKey | None) -> Tensor | None:
        """The same of some nodes; features on the host are not read where nothing is concatenated."""
        if self.concat == "none":
            return None
        return self._beside(_select(x, nodes, plan.device), key)

    def _source(self, x: Tensor, plan: Plan, key: MaskKey | None, runner: Streamed) -> EncodedSource:
        """The states before the first round, of nodes with these features."""

        def start(rows: Tensor, key: MaskKey | None) -> Tensor:
            return self.cell.start(self._start(rows, key))

        features = place_features(x, plan, runner.features, state_type(), self.state_channels)
        parameters = tuple(self._row_parameters())
        return EncodedSource(start, features, plan.order, key, parameters, plan.num_nodes, plan.device, state_type())

    def _start(self, x: Tensor, key: MaskKey | None) -> Tensor:
        """What propagates, of nodes with these features, `[n, d]` or, where scores do, `[n, C]`."""
        if self.predict == "before":
            return self._score_initial(x, None, key)
        return drop_entries(self._initial(x, None, key), self.state_dropout, key, _STATE_LAYER)

    def _forward_all(self, x: Tensor | None, plan: Plan, key: MaskKey | None) -> Tensor:
        if self.predict == "features" and key is None and self.maps_first(x):
            state = self._spread_states(x, plan)
            return self._by_rows(self._score, [state, self._concatenated(x, state)], None)
        if self.predict == "features":
            spread = self.feature_norm(self._spread(x, plan, key))
            return self._by_rows(self._score_features, [spread, x], key)
        embedding = None if self.embedding is None else self.embedding(plan.num_nodes)
        if self.predict == "before":
            return self._propagate(self._by_rows(self._score_initial, [x, embedding], key), plan, key)
        encode = self._by_rows if self.encoder is not None else _at_once  # an embedding is there already
        state = encode(self._initial, [x, embedding], key)
        final = self._propagate(drop_entries(state, self.state_dropout, key, _STATE_LAYER), plan, key)
        return self._by_rows(self._score, [final, self._concatenated(x, state)], key)

    def states(self, x: Tensor | None, plan: Plan) -> Tensor:
        """The states of every node that the head sees, `[N, d]`, without random masks."""
        x = self._check_features(x, plan)
        if self.predict == "features" and not self.training and self.maps_first(x):
            state = self._spread_states(x, plan)
        elif self.predict == "features":
            state = self._by_rows(self._encode, [self.feature_norm(self._spread(x, plan, None))], None)
        else:
            embedding = None if self.embedding is None else self.embedding(plan.num_nodes)
            state = self._by_rows(self._initial, [x, embedding], None)
            state = self._propagate(state, plan, None) if self.predict == "after" else state
        return self._by_rows(lambda final, key: self.state_norm(self.activation(final)), [state], None)

    def _by_rows(self, function: RowFunction, rows: list[Tensor | None], key: MaskKey | None) -> Tensor:
        """`function(*rows, key)`; where the runner computes again what it did not keep, so does the function."""
        if not recomputes(self.runner) or self.norm != "none":  # norms see all nodes at once
            return _at_once(function, rows, key)
        return map_rows(function, rows, key, self._row_parameters())

    def _row_parameters(self) -> list[Tensor]:
        """The parameters of encoder and head."""
        used = [self.head] if self.encoder is None else [self.encoder, self.head]
        return [each for module in used for each in module.parameters() if each.requires_grad]

    def _spread(self, x: Tensor | None, plan: Plan, key: MaskKey | None) -> Tensor:
        """The features after they propagated, `[N, F]`; without random masks, made once where they are not large."""
        assert x is not None
        known = self._known_spread
        if key is None and known is not None and known[0]() is x and known[1]() is plan and known[2] == x._version:
            return known[3]
        dense = x if x.layout == torch.strided else x.to_dense()
        dense = dense.to(self.head.weights[0].dtype)
        spread = self._propagate(drop_rows(dense, self.drop_node, key, _NODE_LAYER), plan, key)
        fixed = key is None and not spread.requires_grad and state_type() is None
        if fixed and spread.element_size() * spread.numel() <= KEPT_SPREAD and not self._learns_spread():
            self._known_spread = (weakref.ref(x), weakref.ref(plan), x._version, spread)
        return spread

    def _spread_states(self, x: Tensor | None, plan: Plan) -> Tensor:
        """The states of features that propagated, `[N, d]`, without random masks: a linear map of them goes first."""
        assert x is not None
        assert self.encoder is not None
        first = self.encoder.first
        assert first.bias is not None
        return self.encoder.refine(self._propagate(first(x) - first.bias, plan, None) + first.bias)

    def _learns_spread(self) -> bool:
        """Whether cell or readout have parameters."""
        return any(True for module in (self.cell, self.readout) for _ in module.parameters())

    def _encode(self, x: Tensor | None, key: MaskKey | None) -> Tensor:
        assert self.encoder is not None
        return self.encoder(x, self.input_dropout, self.dropout, key)

    def _check_features(self, x: Tensor | None, plan: Plan) -> Tensor | None:
        if plan.nodes is not None and self.norm != "none":
            raise ValueError(f"`norm` {self.norm!r} needs all nodes in one process. Got {plan.num_nodes} of them.")
        if self.training and not self.cell.local and recomputes(self.runner):
            most = max((len(phase.blocks) for phase in plan.distinct_phases()), default=1)
            if most > 1:
                raise ValueError(
                    "A cell with batch normalisation needs all rows of a phase at once: the engine fused, or the "
                    f"synchronous schedule. Got a streamed engine and {most} blocks."
                )
        needs_x = self.encoder is not None or (self.concat == "features" and self.head.beside is not None)
        if needs_x and x is None:
            raise ValueError("A model with features as input or beside the state needs `x`. Got None.")
        if x is not None and x.shape[0] != plan.num_nodes:
            raise ValueError(f"`x` must have one row for each of the {plan.num_nodes} nodes. Got {x.shape[0]}.")
        if x is not None and any((layer.scale is None) == (x.dtype == torch.int8) for layer in self._feature_layers):
            raise ValueError(f"Features of 8 bits, and no others, have a scale (`set_feature_scale`). Got {x.dtype}.")
        return x

    def _initial(self, x: Tensor | None, embedding: Tensor | None, key: MaskKey | None) -> Tensor:
        """The initial states of the nodes with these features and embeddings, `[n, d]`."""
        parts = [] if self.encoder is None else [self._encode(x, key)]
        parts += [] if embedding is None else [embedding]
        return drop_rows(parts[0] if len(parts) == 1 else parts[0] + parts[1], self.drop_node, key, _NODE_LAYER)

    def _score_initial(self, x: Tensor | None, embedding: Tensor | None, key: MaskKey | None) -> Tensor:
        """The scores of nodes in their initial states, `[n, C]`."""
        state = self._initial(x, embedding, key)
        return self._score(state, self._concatenated(x, state), key)

    def score_spread(self, spread: Tensor, key: MaskKey | None) -> Tensor:
        """The scores of nodes whose propagated features are these, `[n, C]`, under `predict` "features"."""
        return self._score_features(self.feature_norm(spread), None, key)

    def _score_features(self, spread: Tensor, x: Tensor | None, key: MaskKey | None) -> Tensor:
        """The scores of nodes with these features, after and before they propagated, `[n, C]`."""
        state = self._encode(spread, key)
        return self._score(state, self._concatenated(x, state), key)

    def masked_cell(self, plan: Plan, key: MaskKey | None) -> CellLike:
        """The cell under the random masks of a pass."""
        if key is None or not self.update_dropout:
            return self.cell
        return DroppedCell(self.cell, self.update_dropout, key, plan)

    def _propagate(self, state: Tensor, plan: Plan, key: MaskKey | None) -> Tensor:
        collects, narrow = bool(self.readout.collects), state.to(state_type() or state.dtype)
        cell = self.masked_cell(plan, key)
        states = propagate(cell, plan, narrow, runner=self.runner, collect=collects)
        wide = [each.to(state.dtype) for each in (states if isinstance(states, list) else [states])]
        return self.readout([state, *wide] if collects else wide)

    def _score(self, state: Tensor, beside: Tensor | None, key: MaskKey | None) -> Tensor:
        """The scores of nodes in these final states, with what is concatenated to them, `[n, C]`."""
        return self.head(self.state_norm(self.activation(state)), beside, self.dropout, key, _HEAD_LAYER)
