"""The training step against a slow oracle: the same schedule in float64 by autograd over edge lists, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from gpu_graph import CLASSES, planted
from gpu_task import _features
from torch import Tensor, nn

from gpnn.engine import Plan, Streamed
from gpnn.engine.lower_schedule import lower_csr
from gpnn.nn import GPNN
from gpnn.nn.layers import states_in
from gpnn.partition.clustered import cluster_parts
from gpnn.schedule import held_cut_phases, partitioned_phases, synchronous_phases

ONCE, FEW = "held cut in one round", ", few labels"
SCHEDULES = {"partitioned": partitioned_phases(), "held cut": held_cut_phases(3), "synchronous": synchronous_phases()}
SCHEDULES |= {
    ONCE: held_cut_phases(3),
    f"partitioned{FEW}": partitioned_phases(),
    f"synchronous{FEW}": held_cut_phases(1),
}
RUNNERS = {"device": Streamed(), "host": Streamed(device="cpu", features="cpu", near=1)}
ROUNDS = 2


def check(device: str, *, num_nodes: int = 20_000, width: int = 128) -> dict[str, float]:
    """Relative errors of the loss and of the parameters' gradients."""
    graph = planted(num_nodes, num_nodes * 14, device)
    found = cluster_parts(graph.ptr, graph.col, 8)
    label = graph.label[found.order]
    x = _features(label, width, device, 0)
    arrays = [tensor.cpu().long() for tensor in (graph.ptr, graph.col, *found)]
    types = {"float32": None} | ({"bf16": torch.bfloat16} if device == "cuda" else {})
    errors = {}
    for schedule, phases in SCHEDULES.items():
        train = torch.arange(0, num_nodes, 150 if schedule.endswith(FEW) else 3, device=device)
        plan = lower_csr(graph.ptr, graph.col, *found, phases, rounds=1 if schedule == ONCE else ROUNDS)
        expected = oracle(make_model(width, "cpu", Streamed()), schedule, *arrays, x.double(), train.cpu(), label.cpu())
        for place, runner in RUNNERS.items():
            for name, dtype in types.items():
                model = make_model(width, device, runner)
                with states_in(dtype):
                    loss = take_loss(model, x if place == "host" else x.to(device), plan, train, label[train], schedule)
                loss.backward()
                ours = [parameter.grad for parameter in model.parameters()]
                found_errors = {
                    "loss": abs(float(loss.detach()) / float(expected[0]) - 1),
                    "gradients": max(_error(a, b) for a, b in zip(ours, expected[1], strict=True)),
                }
                errors |= {f"{schedule}, {place}, {what}, {name}": value for what, value in found_errors.items()}
    return errors


def take_loss(model: GPNN, x: Tensor, plan: Plan, train: Tensor, target: Tensor, schedule: str) -> Tensor:
    """The mean cross-entropy; of one round and of few labels by shares of it, as `fit` takes it."""
    if schedule != ONCE and not schedule.endswith(FEW):
        return nn.functional.cross_entropy(model(x, plan, rows=train).float(), target)

    def share(scores: Tensor, at: Tensor) -> Tensor:
        return nn.functional.cross_entropy(scores.float(), target[at], reduction="sum") / len(target)

    loss = model.loss(x, plan, train, share)
    assert loss is not None
    return loss


def make_model(width: int, device: str, runner: Streamed) -> GPNN:
    """A linear encoder, a gated cell and a linear head."""
    return GPNN(width, width, CLASSES, cell="gru", concat="none", runner=runner).to(device)


def oracle(
    model: GPNN, schedule: str, ptr: Tensor, col: Tensor, order: Tensor, part_ptr: Tensor, x: Tensor, train: Tensor,
    label: Tensor,
) -> tuple[Tensor, Sequence[Tensor | None]]:  # fmt: skip
    """Loss and gradients of the parameters, by float64 autograd."""
    model = model.double()
    parameters = dict(model.named_parameters())
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    src, dst = place[col], place[torch.repeat_interleave(torch.arange(len(order)), ptr.diff())]
    part = torch.searchsorted(part_ptr, torch.arange(len(order)), right=True)
    crossing = part[src] != part[dst]
    every, gates = torch.arange(len(order)), [parameters[f"cell.update.{name}"] for name in _GATES]

    def step(state: Tensor, held: Tensor, edges: Tensor, nodes: Tensor) -> Tensor:
        """A step over some edges; those that cross send what `held` has."""
        senders, receivers = src[edges], dst[edges]
        sent = torch.where(crossing[edges][:, None], held[senders], state[senders])
        degree = torch.bincount(receivers, minlength=len(order)).clamp(min=1)
        messages = torch.zeros_like(state).index_add(0, receivers, sent) / degree[:, None]
        return state.index_copy(0, nodes, torch.gru_cell(messages[nodes], state[nodes], *gates))

    state = x @ parameters["encoder.first.weight"] + parameters["encoder.first.bias"]
    everything = torch.ones_like(crossing)
    for _ in range(1 if schedule == ONCE else ROUNDS):
        if schedule.startswith("partitioned"):
            state = step(state, state, ~crossing, every)
            state = step(state, state, crossing, torch.cat([src[crossing], dst[crossing]]).unique())
        else:
            held = state
            for _ in range(3 if schedule.startswith("held cut") else 1):
                state = step(state, held, everything, every)
    scores = state[train] @ parameters["head.weights.0"] + parameters["head.biases.0"]
    loss = nn.functional.cross_entropy(scores, label[train])
    return loss.detach(), torch.autograd.grad(loss, list(parameters.values()))


_GATES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _error(ours: Tensor | None, theirs: Tensor | None) -> float:
    assert ours is not None
    assert theirs is not None
    ours = ours.detach().cpu().double()
    return float((ours - theirs).norm() / theirs.norm())
