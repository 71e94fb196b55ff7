"""Exact full-graph training of a gated network on a planted graph: generate, partition, lower, train."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from gpu_graph import CLASSES, planted
from torch import Tensor, nn

from gpnn.engine import Plan
from gpnn.engine.accumulate import FeatureSource, accumulate_gradients
from gpnn.engine.lower_csr import lower_csr
from gpnn.engine.saved_states import DeviceState, HostRows, HostState
from gpnn.nn.cell import build_cell
from gpnn.nn.head import Head
from gpnn.partition.clustered import Parts, cluster_parts
from gpnn.schedule import PhaseSpec, partitioned_phases


@dataclass
class Clock:
    """Seconds of the steps of a preparation."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        began = now()
        yield
        self.seconds[name] = round(now() - began, 2)
        print(f"  {name}: {self.seconds[name]} s, device memory {gib(torch.cuda.memory_allocated())} GiB", flush=True)


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def gib(count: float) -> float:
    return round(count / 2**30, 2)


@dataclass
class Task:
    """A graph lowered, its features in host memory, and labelled nodes; everything in plan order.

    Attributes:
        plan: the schedule.
        features: `[N, F]`.
        label: class of each node, `[N]`.
        train: labelled nodes, `[n]`.
        check: other nodes, on which accuracy is measured.
        facts: what the preparation measured.
    """

    plan: Plan
    features: HostRows
    label: Tensor
    train: Tensor
    check: Tensor
    facts: dict[str, object]


def prepare(
    num_nodes: int,
    num_edges: int,
    parts: int,
    phases: Sequence[PhaseSpec] | None = None,
    *,
    rounds: int,
    width: int,
    device: str,
) -> Task:
    """Generate, partition by our own clustering, lower (None: the partition schedule), and fill the features."""
    clock, seed = Clock(), 0
    with clock.time("generate"):
        graph = planted(num_nodes, num_edges, device, seed=seed)
    with clock.time("partition"):
        found = cluster_parts(graph.ptr, graph.col, parts, seed=seed)
    facts: dict[str, object] = {"nodes": num_nodes, "edges": graph.col.numel(), "parts": parts, "rounds": rounds}
    facts |= {"width": width, "largest_degree": int(graph.ptr.diff().max()), "planted_cut": round(graph.mixed, 4)}
    with clock.time("lower"):
        plan = lower_csr(graph.ptr, graph.col, *found, phases or partitioned_phases(), rounds=rounds)
    facts |= _quality(plan, found, num_nodes)
    label = graph.label[found.order]
    del graph, found
    torch.cuda.empty_cache()
    with clock.time("features"):
        features = _features(label, width, device, seed)
    random = torch.Generator(device).manual_seed(seed + 1)
    chosen = torch.randperm(num_nodes, device=device, generator=random)[: max(2, num_nodes // 80)]
    cut = max(1, len(chosen) * 9 // 10)
    return Task(plan, features, label, chosen[:cut], chosen[cut:], facts | clock.seconds)


def _quality(plan: Plan, found: Parts, num_nodes: int) -> dict[str, object]:
    total = sum(phase.num_edges for phase in plan.rounds[0])
    between = next((phase for phase in plan.rounds[0] if phase.kind == "cut"), None)
    crossing = 0 if between is None else between.num_edges
    sizes = found.ptr.diff()
    return {
        "cut": round(crossing / max(1, total), 4),
        "cut_nodes": round(0 if between is None else between.num_rows / num_nodes, 4),
        "balance": round(float(sizes.max() * len(sizes) / num_nodes), 3),
        "messages": plan.num_messages,
        "updates": plan.num_updates,
    }


def _features(label: Tensor, width: int, device: str, seed: int) -> HostRows:
    """A noisy sign of its class at each node: too faint to read at one node, clear in the mean of a neighbourhood."""
    random = torch.Generator(device).manual_seed(seed + 2)
    centre = torch.randn(CLASSES, width, device=device, generator=random) * 0.5
    kept = torch.bfloat16 if device == "cuda" else torch.float32
    features = HostRows(len(label), width, kept)
    for number, piece in enumerate(features.pieces):
        noise = torch.randn(len(piece), width, device=device, generator=random)
        piece.copy_((centre[label[features.rows(number)]] + 2 * noise).to(kept))
    return features


class Model(nn.Module):
    """A linear encoder, a gated cell and a linear head, in float32; states are in `dtype`."""

    def __init__(self, width: int, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(width, width, generator=random) / width**0.5)
        self.bias = nn.Parameter(torch.zeros(width))
        self.cell = build_cell("identity", "gru", "mean", {}, width, 1, random)
        self.head = Head(width, CLASSES, random)
        self.dtype = dtype
        self.to(device)

    def scores(self, state: Tensor, rows: Tensor) -> Tensor:
        return self.head(state.index_select(0, rows).to(self.weight.dtype))


class Trainer:
    """Epochs of exact full gradients.

    Args:
        task: what is learnt.
        model: what learns it.
        host_rounds: how many of the kept states, the first ones, lie in host memory.
    """

    def __init__(self, task: Task, model: Model, *, host_rounds: int = 0) -> None:
        self.task, self.model = task, model
        device = task.label.device
        stream = torch.cuda.Stream() if device.type == "cuda" else None
        shape = (len(task.label), model.weight.shape[1])
        self.source = FeatureSource(task.features, model.weight, model.bias, stream)
        buffers = [HostRows(*shape, model.dtype) for _ in range(host_rounds)]
        near = task.plan.num_rounds - 1 - host_rounds
        self.saved = [*(HostState(buffer, stream) for buffer in buffers), *(DeviceState() for _ in range(near))]
        self.shape, self.device = shape, device
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def epoch(self) -> dict[str, float]:
        """One step of the optimiser; seconds of all of it and of its forward part, loss, accuracy before the step."""
        began, metrics = now(), {}

        def objective(state: Tensor) -> Tensor:
            metrics["forward"] = now() - began
            with torch.no_grad():
                scores = self.model.scores(state, self.task.check)
                metrics["accuracy"] = float((scores.argmax(1) == self.task.label[self.task.check]).float().mean())
            scores = self.model.scores(state, self.task.train)
            return nn.functional.cross_entropy(scores, self.task.label[self.task.train])

        self.optimizer.zero_grad()
        metrics["loss"] = float(self.gradients(objective))
        self.optimizer.step()
        return {"seconds": now() - began, **metrics}

    def gradients(self, objective: Callable[[Tensor], Tensor]) -> Tensor:
        state = torch.empty(self.shape, dtype=self.model.dtype, device=self.device)
        arguments = (self.model.cell, self.task.plan, self.source, objective)
        return accumulate_gradients(*arguments, state=state, saved=self.saved)
