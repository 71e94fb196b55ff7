"""A planted graph made, partitioned and lowered on the device, with features on the host, and its training by `fit`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from gpu_graph import CLASSES, planted
from torch import Tensor
from torch_geometric.data import Data

from gpnn.engine import Plan, Streamed
from gpnn.engine.lower_csr import lower_csr
from gpnn.nn import GPNN
from gpnn.nn.state_type import states_in
from gpnn.partition.clustered import Parts, cluster_parts
from gpnn.schedule import PhaseSpec, partitioned_phases
from gpnn.train import Recipe, fit

PIECE = 1 << 20  # rows of features that are made at one time


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
    """A graph lowered, with features and labels in plan order.

    Attributes:
        plan: the schedule.
        data: features `[N, F]`, classes and masks, on the host.
        facts: what the preparation measured.
    """

    plan: Plan
    data: Data
    facts: dict[str, Any]


def prepare(
    num_nodes: int,
    num_edges: int,
    parts: int,
    phases: Sequence[PhaseSpec] | None = None,
    *,
    rounds: int,
    width: int,
    device: str,
    labelled: int = 80,
) -> Task:
    """Generate, partition by our own clustering, lower (None: the partition schedule), and fill the features.

    One node in `labelled` has a label that is used; a tenth of these validate.
    """
    clock, seed = Clock(), 0
    with clock.time("generate"):
        graph = planted(num_nodes, num_edges, device, seed=seed)
    with clock.time("partition"):
        found = cluster_parts(graph.ptr, graph.col, parts, seed=seed)
    facts: dict[str, Any] = {"nodes": num_nodes, "edges": graph.col.numel(), "parts": parts, "rounds": rounds}
    facts |= {"width": width, "largest_degree": int(graph.ptr.diff().max()), "planted_cut": round(graph.mixed, 4)}
    with clock.time("lower"):
        plan = lower_csr(graph.ptr, graph.col, *found, phases or partitioned_phases(), rounds=rounds)
    facts |= _quality(plan, found, num_nodes)
    label = graph.label[found.order]
    del graph, found
    torch.cuda.empty_cache()
    with clock.time("features"):
        x = _features(label, width, device, seed)
    random = torch.Generator(device).manual_seed(seed + 1)
    chosen = torch.randperm(num_nodes, device=device, generator=random)[: max(2, num_nodes // labelled)]
    cut = max(1, len(chosen) * 9 // 10)
    nodes = {"train_mask": chosen[:cut].cpu(), "val_mask": chosen[cut:].cpu()}
    none = torch.zeros(num_nodes, dtype=torch.bool)
    masks = {name: none.index_fill(0, each, True) for name, each in nodes.items()}
    return Task(plan, Data(x=x, y=label.cpu(), num_nodes=num_nodes, **masks), facts | clock.seconds)


def _quality(plan: Plan, found: Parts, num_nodes: int) -> dict[str, Any]:
    sizes = found.ptr.diff()
    facts: dict[str, Any] = {"balance": round(float(sizes.max() * len(sizes) / num_nodes), 3)}
    facts |= {"messages": plan.num_messages, "updates": plan.num_updates}
    total = sum(phase.num_edges + phase.num_held for phase in plan.rounds[0])
    for phase in plan.rounds[0]:
        if phase.kind in ("cut", "held"):
            crossing, ends = (phase.num_held, phase.num_halo) if phase.num_held else (phase.num_edges, phase.num_rows)
            facts |= {"cut": round(crossing / max(1, total), 4), "cut_nodes": round(ends / num_nodes, 4)}
    return facts


def _features(label: Tensor, width: int, device: str, seed: int) -> Tensor:
    """A noisy sign of its class at each node: too faint to read at one node, clear in the mean of a neighbourhood."""
    random = torch.Generator(device).manual_seed(seed + 2)
    centre = torch.randn(CLASSES, width, device=device, generator=random) * 0.5
    x = torch.empty(len(label), width, dtype=torch.bfloat16 if device == "cuda" else torch.float32)
    for start in range(0, len(label), PIECE):
        some = label[start : start + PIECE]
        noise = torch.randn(len(some), width, device=device, generator=random)
        x[start : start + PIECE] = (centre[some] + 2 * noise).to(x.dtype).to("cpu")
    return x


def make_model(width: int, device: str, runner: Streamed) -> GPNN:
    """A linear encoder, a gated cell and a linear head."""
    return GPNN(width, width, CLASSES, cell="gru", concat="none", runner=runner).to(device)


def train(task: Task, runner: Streamed, *, epochs: int, precision: str = "bf16_states") -> dict[str, Any]:
    """Train by :func:`gpnn.train.fit`: seconds and memory of the epochs, and what it came to."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = make_model(task.facts["width"], str(task.plan.device), runner)
    recipe = Recipe(
        epochs=epochs, precision=precision, weight_decay=0.0, clip=0.0, check_every=max(2, epochs // 2), patience=0
    )
    result = fit(model, task.data, task.plan, recipe=recipe, callbacks=[_Printer()])
    bare = sorted(record["seconds"] for record in result.history[1:] if "val_loss" not in record)
    checked = [record["seconds"] for record in result.history if "val_loss" in record]
    return {
        "seconds": round(bare[len(bare) // 2], 3) if bare else None,
        "with validation": round(checked[-1], 3),
        "GiB": gib(torch.cuda.max_memory_allocated()),
        "reserved GiB": gib(torch.cuda.max_memory_reserved()),
        "val_accuracy": round(result.metrics["val_accuracy"], 4),
        "history": [{name: _round(value) for name, value in record.items()} for record in result.history],
    }


def one_pass(task: Task, runner: Streamed) -> Callable[[], None]:
    """A pass there and back over labelled nodes, without an optimiser."""
    model, x = make_model(task.facts["width"], "cuda", runner), task.data.x.cuda()
    rows = task.data.train_mask.nonzero().flatten().cuda()

    def work() -> None:
        with states_in(torch.bfloat16):
            model(x, task.plan, rows=rows).sum().backward()

    return work


def _round(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


class _Printer:
    """Prints each epoch."""

    def start(self, history: list[dict[str, Any]]) -> None: ...

    def epoch(self, record: dict[str, Any]) -> None:
        shown = {
            name: _round(value) for name, value in record.items() if name.endswith(("loss", "accuracy", "seconds"))
        }
        print(f"  {shown}, peak {gib(torch.cuda.max_memory_allocated())} GiB", flush=True)
