"""Estimate: the memory that a training will take at its peak, before its first epoch, from a probe of a few nodes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gpnn.data.splits import count_entries
from gpnn.engine import Plan, Streamed, recomputes
from gpnn.engine.blockwise_backward import ends_independently, is_one_blockwise_round
from gpnn.engine.propagate import Runner, streamed_runner
from gpnn.engine.reach import can_follow
from gpnn.engine.recompute import Recomputation, takes_parts
from gpnn.engine.rows import step_rows
from gpnn.graph import as_graph
from gpnn.memory.available import anonymous_bytes, resident_bytes
from gpnn.memory.probe import NodeBytes, probe
from gpnn.memory.reach import CountedParts, CountedReach, count_parts, count_reach
from gpnn.memory.runner import (
    SourceBytes,
    StateBytes,
    largest_piece_bytes,
    lowering_bytes,
    placed_bytes,
    plan_bytes,
    reach_bytes,
    runner_bytes,
    scoring_bytes,
    source_bytes,
    stored_bytes,
)
from gpnn.nn import GPNN, ColumnModel, MaskKey
from gpnn.nn.encoded_source import copied_at_once
from gpnn.nn.gpnn import LARGE_SCORES
from gpnn.nn.layers import states_in
from gpnn.nn.row_chunks import chunk_rows
from gpnn.nn.sampled_rows import ENTRIES, ENTRY_BYTES
from gpnn.train.recipe import Recipe
from gpnn.train.trainer import MAPPED_LOGITS, holds_logits

if TYPE_CHECKING:
    from torch_geometric.data import Data

_OPTIMIZER_COPIES = {"sgd": 1, "rmsprop": 2}  # of the parameters; others keep two moments
_BUFFERS = {"cpu": 5 << 25, "cuda": 1 << 26}
_HOST_BUFFERS = 3 << 27  # on the host beside a GPU: libraries and kernels that the first epoch loads, as measured
_HOST_ROW = 6  # bytes of a node there, beside what is there already, until its prediction is written, as measured
_COLUMN_COPIES = 9  # of a model's dense columns, as float32: as measured, trees growing on them
SOLVER_ENTRY, SOLVER_EDGE = 100.0, 40.0  # bytes of a solver for each entry of many features, and for each edge
_REVERSE = 140  # bytes for each edge that gets a reverse, as measured
_SCORE_COPIES = 6  # of the outputs of all splits: those of each, probabilities, and what metrics make of them
_SPARE = 0.65  # of what a training takes: freed memory that is kept, as measured
_MUCH = 1e9  # bytes, from where on it is: smaller tensors are kept anyway
_HELD = 2  # states that a CPU's allocator still holds when they are free, as measured


@dataclass(frozen=True)
class Estimate:
    """Bytes of a training on one device.

    Attributes:
        resident: taken already: interpreter, data, model.
        plan: the lowered schedule's arrays.
        features: sparse features as an operator with its transpose, with dropout's weights; or columns.
        parameters: gradients, optimiser and best weights.
        kept: states and activations between forward and backward.
        work: what the backward pass takes besides, through the propagation.
        after: of `kept`, what is free again by then.
        outside: what a pass takes besides `kept` outside the propagation.
        lowering: what lowering takes besides the plan, before the first pass.
        scoring: what the outputs of all nodes take after the last epoch, without gradients.
        host: where the plan is on a GPU, what is in host memory: taken already, pages of mapped files aside, and
            features and states put there.
        piece: of the peak, what follows the size of the largest subgraph.
        buffers: of chunks, compiled kernels, and the allocator's slack.
        spare: freed memory that the C library keeps for later tensors.
    """

    resident: float
    plan: float
    features: float
    parameters: float
    kept: float
    work: float
    lowering: float
    after: float = 0.0
    outside: float = 0.0
    scoring: float = 0.0
    piece: float = 0.0
    host: float = 0.0
    buffers: float = _BUFFERS["cpu"]
    spare: float = 0.0

    @property
    def peak(self) -> float:
        """The most at any time, bytes."""
        training = self.kept + max(self.work - self.after, self.outside)
        passes = self.features + self.parameters + max(training, self.scoring)
        return self.resident + self.plan + max(self.lowering, passes) + self.buffers + self.spare

    def keeping_freed(self) -> Estimate:
        """The same where freed memory is kept, and what torch frees of one size is too small for the next."""
        grown = self.peak - self.resident
        return replace(self, spare=_SPARE * grown if grown > _MUCH else 0.0)

    def __str__(self) -> str:
        """In GB, the largest parts named.

        >>> str(Estimate(3e8, 2e8, 0, 1e8, 5e9, 1e9, 4e8))
        '6.8 GB (activations 5.0, backward pass 1.0, data and program 0.3)'
        """
        parts = {"data and program": self.resident, "plan": self.plan, "features": self.features}
        parts |= {"parameters": self.parameters, "activations": self.kept, "backward pass": self.work}
        parts |= {"freed memory": self.spare}
        largest = sorted(parts.items(), key=lambda part: -part[1])[:3]
        host = f" on the GPU and {self.host / 1e9:.1f} GB on the host" if self.host else ""
        return f"{self.peak / 1e9:.1f} GB{host} ({', '.join(f'{name} {size / 1e9:.1f}' for name, size in largest)})"


def estimate_columns(model: ColumnModel, data: Data) -> Estimate:
    """What finding the weights of a model of columns will take at its peak, roughly.

    Args:
        model: its number of columns counts.
        data: features and edges.
    """
    num_columns = model.linear.dense_weight.shape[0] + 2 * model.num_selected
    held = 4.0 * _COLUMN_COPIES * num_columns * data.num_nodes + (
        SOLVER_ENTRY * count_entries(data.get("x")) if model.many else 0
    )
    return Estimate(resident_bytes(), SOLVER_EDGE * as_graph(data).num_edges, held, 0.0, 0.0, 0.0, 0.0)


def estimate_reverses(num_edges: int) -> Estimate:
    """What it takes to give so many edges their reverses."""
    return Estimate(resident_bytes(), float(_REVERSE * num_edges), 0.0, 0.0, 0.0, 0.0, 0.0)


def estimate_memory(
    model: GPNN,
    x: Tensor | None,
    plan: Plan,
    recipe: Recipe,
    runner: str | Runner | None = None,
    *,
    rows: int | None = None,
    train: Tensor | None = None,
    budget: float = math.inf,
) -> Estimate:
    """What training `model` on `plan` will take at its peak under a runner.

    Args:
        model: at its initial weights, on the plan's device.
        x: features, dense or sparse, or None.
        plan: the lowered schedule; none of its arrays need have been built.
        recipe: its passes, optimiser and consistency count.
        runner: "fused", "streamed" or a :class:`gpnn.engine.Streamed`; None is "fused".
        rows: how many nodes' outputs an epoch takes, at most; None: all.
        train: the nodes that the loss is taken of, `[n]`, where that is known.
        budget: bytes that it may take: what the loss reaches is kept as far as there is room.
    """
    if recipe.batch and x is not None and model.predict == "features":
        return _of_batches(model, x, plan, recipe)
    with states_in(torch.bfloat16 if recipe.precision == "bf16_states" else None):
        each = probe(model, x, plan, recomputes=recomputes(runner))
    training, streamed = _Training(model, plan, recipe, runner, each, rows), streamed_runner(runner)
    if x is not None and streamed is not None and model.recomputes_initial_states(x, plan, streamed):
        reach = training.reach(x, train)
        found = training.from_features(x, streamed, reach, train)
        if reach is None or found.peak <= budget:
            return found
        missing = math.ceil((found.peak - budget) / each.state)
        return training.from_features(x, streamed, reach.within(reach.reach.num_held - missing), train)
    return training.from_states(x)


@dataclass(frozen=True)
class _Training:
    """A training whose passes were probed: arguments of :func:`estimate_memory`, and bytes of a node."""

    model: GPNN
    plan: Plan
    recipe: Recipe
    runner: str | Runner | None
    each: NodeBytes
    rows: int | None

    @property
    def sizes(self) -> StateBytes:
        return StateBytes(self.each.state, self.each.by_step, _boundary(self.each.state, self.runner), self.each.kernel)

    @property
    def on_gpu(self) -> bool:
        return self.plan.device.type == "cuda"

    @property
    def num_outputs(self) -> int:
        return self.model.head.biases[-1].numel()

    @property
    def reads_some(self) -> bool:
        """Whether the loss reads the outputs of some nodes alone."""
        return self.rows is not None and not self.recipe.consistency

    def from_states(self, x: Tensor | None) -> Estimate:
        """The estimate where encoder and head see all nodes at once, and states before the first round are kept."""
        each, plan, recipe = self.each, self.plan, self.recipe
        num_nodes, outputs, streams = plan.num_nodes, 4 * self.num_outputs, recomputes(self.runner)
        held, work = runner_bytes(plan, self.sizes, recomputes=streams)
        order = 0 if plan.order is None else 2 * num_nodes * each.state  # into the plan's order, and out of it
        freed = outputs if self.on_gpu and self.reads_some else 0  # once the loss has read its rows
        held += num_nodes * (each.by_model + (-freed or outputs)) + order
        after = num_nodes * (each.after - freed)
        outside = num_nodes * each.widest + min(num_nodes, chunk_rows(0 if x is None else x.shape[1])) * each.chunk
        if recipe.consistency:
            outside += 6 * recipe.passes * num_nodes * outputs  # probabilities, their average, target and distances
        work += 0 if self.on_gpu else _HELD * num_nodes * each.state
        piece = largest_piece_bytes(plan, self.sizes) if streams and plan.runners is None else 0.0
        masked = recipe.passes if self.model.input_dropout and not each.chunk else 0
        return Estimate(
            **_fixed_bytes(self.model, plan, recipe, recomputes=streams),
            features=_feature_bytes(x, masked) + _moved(x, plan),
            kept=held * recipe.passes,
            work=work,
            after=after,
            outside=outside,
            piece=min(piece, max(0.0, work - after - outside)),
        )

    @property
    def at_once(self) -> bool:
        """Whether the loss is differentiated rows at a time, where states are made of features."""
        recipe = self.recipe
        return not recipe.consistency and self.model.reads_rows(self.plan) and recipe.precision != "bf16"

    def reach(self, x: Tensor, train: Tensor | None) -> CountedReach | None:
        """What the nodes of a loss reach, where a pass goes through that."""
        return _reach(self.model, x, self.plan, train) if self.at_once and train is not None else None

    def _parts(self, runner: Streamed, train: Tensor | None) -> CountedParts | None:
        """The parts of blocks that the nodes of a loss need after the last round."""
        plan, most = self.plan, runner.part_edges
        parted = takes_parts(self.model.masked_cell(plan, MaskKey(0)), plan.device) and ends_independently(plan)
        if train is None or not (parted and self.at_once):
            return None
        found: CountedParts | None = _count_once(
            plan, train, f"parts {most}", lambda rows: count_parts(plan, rows, most)
        )
        return found

    def from_features(self, x: Tensor, runner: Streamed, reach: CountedReach | None, train: Tensor | None) -> Estimate:
        """The same where initial states are made of features; through what a loss reaches, None: through all rows."""
        each, plan, recipe, model, at_once = self.each, self.plan, self.recipe, self.model, self.at_once
        width = 2 if recipe.precision == "bf16_states" else x.element_size()
        stored, fixed = stored_bytes(x, width), _fixed_bytes(model, plan, recipe, recomputes=True)
        copies = 2 if model.input_dropout or model.state_dropout or model.drop_node else 1  # with masks, and without
        read = copies * width * x.shape[1]
        if reach is None:
            parts = self._parts(runner, train)
            made = read + 3 * copies * width * model.state_channels  # product, activation and its gradient
            found = source_bytes(
                plan, self.sizes, runner, stored, read=read, made=made, whole=self._comes_whole(x), at_once=at_once,
                parts=parts,
            )  # fmt: skip
            kept, work, on_host = found.kept, self._in_chunks(x, runner, found, width), found.host
            fixed["plan"] += 0.0 if parts is None else parts.num_bytes
        else:
            on_host = stored if self.on_gpu and runner.features == "cpu" else 0.0  # of which all come at once
            kept, work = 0.0, on_host + reach_bytes(reach, self.sizes, made=read)
            fixed["plan"] += reach.num_bytes
        wanted = self.rows if self.reads_some and self.rows is not None else plan.num_nodes
        kept += 0.0 if at_once else wanted * (each.by_model + 4 * self.num_outputs)
        here, elsewhere, every = self._scores()
        beside = _HOST_BUFFERS + _HOST_ROW * plan.num_nodes + on_host + elsewhere
        scored = (
            8 * self.num_outputs + 4 * model.state_channels + each.state
        )  # of a row: sums, outputs, its state twice
        return Estimate(
            **fixed,
            features=_moved(x, plan) if runner.features is None else 0.0,
            kept=kept * (1 if at_once else recipe.passes),
            work=work,
            scoring=scoring_bytes(plan, self.sizes, here, scored=scored, every=every, share=runner.scored),
            piece=min(largest_piece_bytes(plan, self.sizes), work),
            host=anonymous_bytes() + beside if self.on_gpu else 0.0,
        )

    def _scores(self) -> tuple[float, float, bool]:
        """Bytes of the outputs after a training, on the plan's device and on the host; whether of all nodes."""
        plan, whole = self.plan, 4.0 * self.plan.num_nodes * self.num_outputs
        if not holds_logits(plan.num_nodes, self.num_outputs):
            some = plan.num_nodes if self.rows is None else min(plan.num_nodes, 1.5 * self.rows)  # of all splits
            # a GPU has states of all nodes when predictions are written
            return 4.0 * _SCORE_COPIES * some * self.num_outputs, 0.0, self.on_gpu
        if not self.on_gpu:
            return (whole if plan.num_nodes * self.num_outputs <= MAPPED_LOGITS else 0.0), 0.0, True
        return (0.0, whole, True) if whole > LARGE_SCORES else (whole, 0.0, True)

    def _comes_whole(self, x: Tensor) -> bool:
        """Whether features on the host come to a GPU all at once."""
        return copied_at_once(x, self.model.state_channels)

    def _in_chunks(self, x: Tensor, runner: Streamed, found: SourceBytes, width: int) -> float:
        """What a pass over all rows takes besides what it keeps, with features that are encoded a chunk at a time."""
        plan, each, whole = self.plan, self.each, self._comes_whole(x)
        if whole and is_one_blockwise_round(plan):
            return found.work  # blocks encode what they read
        chunk, state = step_rows(plan.device), plan.num_nodes * each.state
        if not (self.on_gpu and runner.features == "cpu" and not whole):
            return found.work + min(chunk * (x.shape[1] * 4 + 3 * each.state + each.chunk), state)
        # two pieces are here before the first round, beside two states, and after it beside a gradient
        pieces = chunk * (x.shape[1] * 2 * width + 3 * each.state)
        reading = max(state + pieces, pieces + chunk * x.shape[1] * 4)
        return max(found.work + chunk * 3 * each.state, state + reading - found.kept)


_counted = WeakTensorKeyDictionary()  # nodes of a loss -> a plan and what was counted in it, for all engines


def _count_once(plan: Plan, train: Tensor, what: str, count: Callable[[Tensor], Any]) -> Any:
    """`count` of the plan rows of a loss's nodes, `[n]`, or what it gave before."""
    if train not in _counted or _counted[train][0]() is not plan:
        _counted[train] = weakref.ref(plan), {}
    known: dict[str, Any] = _counted[train][1]
    if what not in known:
        known[what] = count(plan.rows_of(train.to(plan.device)))
    return known[what]


def _reach(model: GPNN, x: Tensor, plan: Plan, train: Tensor) -> CountedReach | None:
    """What the nodes of a loss reach, where a pass that makes states of `x` goes through it."""
    if x.shape[1] > model.state_channels:
        return None
    recomputation = Recomputation(model.masked_cell(plan, MaskKey(0)), plan, None)
    if not can_follow(recomputation, plan.rows_of(train.to(plan.device))):
        return None
    found: CountedReach | None = _count_once(plan, train, "reach", lambda rows: count_reach(plan, rows))
    return found


def _of_batches(model: GPNN, x: Tensor, plan: Plan, recipe: Recipe) -> Estimate:
    """The same of mini-batches: rows of the propagation matrix, what a few nodes keep, and a prediction of all."""
    hidden = model.head.weights[0].shape[0]
    wide = hidden if model.maps_first(x) else x.shape[1]
    batch = (recipe.batch + recipe.labelled) * (2 * x.shape[1] + 4 * hidden) * 4
    return Estimate(
        **_fixed_bytes(model, plan, recipe, recomputes=False),
        features=_feature_bytes(x, 0) + plan.num_nodes * ENTRIES * ENTRY_BYTES,
        kept=batch * recipe.passes,
        work=0.0,
        outside=4 * 4 * plan.num_nodes * wide,  # features, what was kept of them, and two states of the propagation
    )


def _fixed_bytes(model: GPNN, plan: Plan, recipe: Recipe, *, recomputes: bool) -> dict[str, float]:
    """What does not depend on the pass; a runner that `recomputes` takes the plan in blocks."""
    parameters = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return {
        "resident": resident_bytes(plan.device) - placed_bytes(plan),
        "plan": plan_bytes(plan, recomputes=recomputes) + 16 * (0 if plan.order is None else plan.num_nodes),
        "parameters": parameters * (2 + _OPTIMIZER_COPIES.get(recipe.optimizer, 3)),
        "lowering": lowering_bytes(plan) + placed_bytes(plan),
        "buffers": _BUFFERS[plan.device.type],
    }


def _boundary(state: float, runner: str | Runner | None) -> float:
    """Bytes of a state between rounds in the plan's memory."""
    if not isinstance(runner, Streamed):
        return state
    if runner.folder is not None or runner.device is not None:
        return 0.0
    if runner.phases:
        return 2 * state  # at most all rows between two phases, too
    return state / 2 if runner.dtype in (torch.bfloat16, torch.float16) else state


def _moved(x: Tensor | None, plan: Plan) -> float:
    """Bytes of dense features that are to be moved to the plan's GPU."""
    beside = x is not None and x.layout == torch.strided and plan.device.type == "cuda" and not x.is_cuda
    return float(x.numel() * x.element_size()) if beside and x is not None else 0.0


def _feature_bytes(x: Tensor | None, masked: int) -> float:
    if x is None or x.layout == torch.strided:
        return 0.0
    entries = x.values().numel() if x.layout != torch.sparse_coo else x._nnz()
    return entries * (16 + 4 * masked) + 8.0 * (x.shape[0] + x.shape[1])
