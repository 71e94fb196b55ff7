"""The training step against a slow oracle: the same schedule in float64 by autograd over edge lists, on the CPU."""

from __future__ import annotations

import torch
from gpu_graph import planted
from gpu_train import Model, Task, Trainer, _features
from torch import Tensor, nn

from gpnn.engine.lower_csr import lower_csr
from gpnn.partition.clustered import cluster_parts
from gpnn.schedule import partitioned_phases


def check(device: str, *, num_nodes: int = 20_000, width: int = 128, rounds: int = 3) -> dict[str, float]:
    """Relative errors of the loss, of the parameters' gradients and of sampled rows of the states' gradient."""
    graph = planted(num_nodes, num_nodes * 14, device)
    found = cluster_parts(graph.ptr, graph.col, 8)
    plan = lower_csr(graph.ptr, graph.col, *found, partitioned_phases(), rounds=rounds)
    label = graph.label[found.order]
    features = _features(label, width, device, 0)
    train = torch.arange(0, num_nodes, 3, device=device)
    task = Task(plan, features, label, train, train[:1], {})
    types = {"float32": torch.float32} | ({"bf16": torch.bfloat16} if device == "cuda" else {})
    x = torch.cat([piece.double() for piece in features.pieces])
    arrays = [tensor.cpu().long() for tensor in (graph.ptr, graph.col, *found)]
    errors = {}
    for name, dtype in types.items():
        model = Model(width, dtype, device)
        expected = oracle(model, *arrays, x, task, rounds)
        errors |= {f"{what}, {name}": value for what, value in _compare(task, model, expected).items()}
    return errors


def _compare(task: Task, model: Model, expected: tuple[Tensor, Tensor, list[Tensor]]) -> dict[str, float]:
    trainer, seen = Trainer(task, model, host_rounds=1), []
    absorb = trainer.source.absorb

    def watch(grad: Tensor) -> None:
        seen.append(grad[::97].clone())
        absorb(grad)

    trainer.source.absorb = watch  # type: ignore[method-assign]
    aim = task.label[task.train]
    loss = trainer.gradients(lambda state: nn.functional.cross_entropy(model.scores(state, task.train), aim))
    ours = [parameter.grad for parameter in model.parameters()]
    return {
        "loss": abs(float(loss) / float(expected[0]) - 1),
        "sampled rows of the states' gradient": _error(seen[0], expected[1][::97]),
        "parameters' gradients": max(_error(a, b) for a, b in zip(ours, expected[2], strict=True)),
    }


def oracle(model, ptr, col, order, part_ptr, x, task, rounds):  # type: ignore[no-untyped-def]
    """Loss, gradient of the initial states and of the parameters, by float64 autograd."""
    parameters = {name: p.detach().cpu().double().requires_grad_() for name, p in model.named_parameters()}
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    src, dst = place[col], place[torch.repeat_interleave(torch.arange(len(order)), ptr.diff())]
    part = torch.searchsorted(part_ptr, torch.arange(len(order)), right=True)
    crossing = part[src] != part[dst]
    phases = [(src[~crossing], dst[~crossing], torch.arange(len(order)))]
    phases.append((src[crossing], dst[crossing], torch.cat([src[crossing], dst[crossing]]).unique()))
    first = x @ parameters["weight"] + parameters["bias"]
    first.retain_grad()
    state = first
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    gates = [parameters[f"cell.update.{name}"] for name in names]
    for _ in range(rounds):
        for senders, receivers, nodes in phases:
            degree = torch.bincount(receivers, minlength=len(order)).clamp(min=1)
            messages = torch.zeros_like(state).index_add(0, receivers, state[senders]) / degree[:, None]
            state = state.index_copy(0, nodes, torch.gru_cell(messages[nodes], state[nodes], *gates))
    train, label = task.train.cpu(), task.label.cpu()
    scores = state[train] @ parameters["head.weights.0"] + parameters["head.biases.0"]
    loss = nn.functional.cross_entropy(scores, label[train])
    loss.backward()
    return loss.detach(), first.grad, [p.grad for p in parameters.values()]


def _error(ours: Tensor, theirs: Tensor) -> float:
    ours = ours.detach().cpu().double()
    return float((ours - theirs).norm() / theirs.norm())
