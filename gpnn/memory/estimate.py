"""Estimate: the memory that a training will take at its peak, before its first epoch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpnn.engine import Plan, Streamed, recomputes
from gpnn.engine.propagate import Runner, streamed_runner
from gpnn.engine.rows import step_rows
from gpnn.memory.available import resident_bytes
from gpnn.memory.probe import NodeBytes, probe
from gpnn.memory.runner import (
    StateBytes,
    largest_piece_bytes,
    lowering_bytes,
    placed_bytes,
    plan_bytes,
    runner_bytes,
    source_bytes,
    stored_bytes,
)
from gpnn.nn import GPNN
from gpnn.nn.encoded_source import comes_whole
from gpnn.nn.layers import states_in
from gpnn.nn.row_chunks import chunk_rows
from gpnn.train.recipe import Recipe

_OPTIMIZER_COPIES = {"sgd": 1, "rmsprop": 2}  # of the parameters; others keep two moments
_BUFFERS = 1 << 26  # chunk buffers, compiled kernels and the allocator's slack
_HELD = 2  # states that a CPU's allocator still holds when they are free, as measured


@dataclass(frozen=True)
class Estimate:
    """Bytes of a training on one device.

    Attributes:
        resident: taken already: interpreter, data, model.
        plan: the lowered schedule's arrays.
        features: sparse features as an operator with its transpose, with dropout's weights.
        parameters: gradients, optimiser and best weights.
        kept: states and activations between forward and backward.
        work: what the backward pass takes besides, through the propagation.
        after: of `kept`, what is free again by then.
        outside: what a pass takes besides `kept` outside the propagation.
        lowering: what lowering takes besides the plan, before the first pass.
        host: where the plan is on a GPU, what is in host memory: taken already, and features and states put there.
        piece: of the peak, what follows the size of the largest subgraph.
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
    piece: float = 0.0
    host: float = 0.0

    @property
    def peak(self) -> float:
        """The most at any time, bytes."""
        training = self.features + self.parameters + self.kept + max(self.work - self.after, self.outside)
        return self.resident + self.plan + max(self.lowering, training) + _BUFFERS

    def __str__(self) -> str:
        """In GB, the largest parts named.

        >>> str(Estimate(3e8, 2e8, 0, 1e8, 5e9, 1e9, 4e8))
        '6.7 GB (activations 5.0, backward pass 1.0, data and program 0.3)'
        """
        parts = {"data and program": self.resident, "plan": self.plan, "sparse features": self.features}
        parts |= {"parameters": self.parameters, "activations": self.kept, "backward pass": self.work}
        largest = sorted(parts.items(), key=lambda part: -part[1])[:3]
        host = f" on the GPU and {self.host / 1e9:.1f} GB on the host" if self.host else ""
        return f"{self.peak / 1e9:.1f} GB{host} ({', '.join(f'{name} {size / 1e9:.1f}' for name, size in largest)})"


def estimate_memory(
    model: GPNN,
    x: Tensor | None,
    plan: Plan,
    recipe: Recipe,
    runner: str | Runner | None = None,
    *,
    rows: int | None = None,
) -> Estimate:
    """What training `model` on `plan` will take at its peak under a runner.

    Args:
        model: at its initial weights, on the plan's device.
        x: features, dense or sparse, or None.
        plan: the lowered schedule; none of its arrays need have been built.
        recipe: its passes, optimiser and consistency count.
        runner: "fused", "streamed" or a :class:`gpnn.engine.Streamed`; None is "fused".
        rows: how many nodes' outputs an epoch takes, at most; None: all.
    """
    streams = recomputes(runner)
    with states_in(torch.bfloat16 if recipe.precision == "bf16_states" else None):
        each = probe(model, x, plan, recomputes=streams)
    num_nodes, outputs = plan.num_nodes, model.head.biases[-1].numel() * 4
    sizes = StateBytes(each.state, each.by_step, _boundary(each.state, runner), each.kernel)
    streamed = streamed_runner(runner)
    if x is not None and streamed is not None and model.makes_states_again(x, plan, streamed):
        wanted = num_nodes if rows is None or recipe.consistency else rows
        by_rows = not recipe.consistency and not model.readout.collects and recipe.precision != "bf16"
        kept = 0.0 if by_rows else wanted * (each.by_model + outputs)  # by rows the loss is differentiated at once
        return _from_features(model, x, plan, recipe, streamed, each, sizes, kept, 1 if by_rows else recipe.passes)
    held, work = runner_bytes(plan, sizes, recomputes=streams)
    order = 0 if plan.order is None else 2 * num_nodes * each.state  # into the plan's order, and out of it
    held += num_nodes * (each.by_model + outputs) + order
    after = num_nodes * each.after
    outside = num_nodes * each.widest + min(num_nodes, chunk_rows(0 if x is None else x.shape[1])) * each.chunk
    if recipe.consistency:
        outside += 6 * recipe.passes * num_nodes * outputs  # probabilities, their average, target and distances
    if plan.device.type == "cpu":
        work += _HELD * num_nodes * each.state
    piece = largest_piece_bytes(plan, sizes) if streams and plan.runners is None else 0.0
    return Estimate(
        resident=resident_bytes(plan.device) - placed_bytes(plan),
        plan=plan_bytes(plan) + 16 * (0 if plan.order is None else num_nodes),
        features=_feature_bytes(x, recipe.passes if model.input_dropout and not each.chunk else 0),
        parameters=_parameter_bytes(model, recipe),
        kept=held * recipe.passes,
        work=work,
        lowering=lowering_bytes(plan) + placed_bytes(plan),
        after=after,
        outside=outside,
        piece=min(piece, max(0.0, work - after - outside)),
    )


def _from_features(
    model: GPNN,
    x: Tensor,
    plan: Plan,
    recipe: Recipe,
    runner: Streamed,
    each: NodeBytes,
    sizes: StateBytes,
    outputs: float,
    passes: int,
) -> Estimate:
    """The same where initial states are made of features.

    `outputs` are bytes of the rows that the head sees, and of `passes` at a time is kept what they need.
    """
    width = 2 if recipe.precision == "bf16_states" else x.element_size()
    found = source_bytes(plan, sizes, runner, stored_bytes(x, width), whole=comes_whole(x, model.state_channels))
    own = plan.device.type == "cuda"
    moved = x.numel() * x.element_size() if own and runner.features is None and not x.is_cuda else 0
    chunk = step_rows(plan.device) * (x.shape[1] * 4 + 3 * each.state + each.chunk)
    piece = largest_piece_bytes(plan, sizes)
    return Estimate(
        resident=resident_bytes(plan.device) - placed_bytes(plan),
        plan=plan_bytes(plan) + 16 * (0 if plan.order is None else plan.num_nodes),
        features=moved,
        parameters=_parameter_bytes(model, recipe),
        kept=(found.kept + outputs) * passes,
        work=found.work + min(chunk, plan.num_nodes * each.state),
        lowering=lowering_bytes(plan) + placed_bytes(plan),
        piece=min(piece, found.work),
        host=resident_bytes("cpu") + found.host if own else 0.0,
    )


def _parameter_bytes(model: GPNN, recipe: Recipe) -> float:
    parameters = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return parameters * (2 + _OPTIMIZER_COPIES.get(recipe.optimizer, 3))


def _boundary(state: float, runner: str | Runner | None) -> float:
    """Bytes of a state between rounds in the plan's memory."""
    if not isinstance(runner, Streamed):
        return state
    if runner.folder is not None or runner.device is not None:
        return 0.0
    return state / 2 if runner.dtype in (torch.bfloat16, torch.float16) else state


def _feature_bytes(x: Tensor | None, masked: int) -> float:
    if x is None or x.layout == torch.strided:
        return 0.0
    entries = x.values().numel() if x.layout != torch.sparse_coo else x._nnz()
    return entries * (16 + 4 * masked) + 8.0 * (x.shape[0] + x.shape[1])
