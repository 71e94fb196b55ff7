"""A planted graph made on the device, its features on the host, and its training by the assembly of `gpnn train`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from gpu_graph import CLASSES, planted
from torch import Tensor
from torch_geometric.data import Data

from gpnn import Graph
from gpnn.memory.available import anonymous_bytes
from gpnn.nn.layers import states_in
from gpnn.pipeline import Assembly, Pipeline
from gpnn.train import Recipe, fit

PIECE = 1 << 20  # rows of features that are made at one time
SCALE = 4 * 4.25**0.5 / 127  # of features in whole numbers of 8 bits: four times their standard deviation is the end


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
    """A graph in CSR form with features, labels and masks, on the host.

    Attributes:
        data: `graph` and the rest.
        facts: what the preparation measured.
    """

    data: Data
    facts: dict[str, Any]


def prepare(
    num_nodes: int, num_edges: int, *, width: int, device: str, labelled: int = 80, graph: str = "planted",
    feature_type: torch.dtype | None = None,
) -> Task:  # fmt: skip
    """Generate a graph of :data:`gpu_graph.PAIRS` and its features, in a type; None: bfloat16, on a CPU float32.

    One node in `labelled` has a label that is used; a tenth of these validate.
    """
    clock, seed = Clock(), 0
    with clock.time("generate"):
        made = planted(num_nodes, num_edges, device, graph=graph)
    facts: dict[str, Any] = {"graph": graph, "nodes": num_nodes, "edges": made.col.numel(), "width": width}
    facts |= {"largest_degree": int(made.ptr.diff().max()), "planted_cut": round(made.mixed, 4)}
    with clock.time("features"):
        x = _features(made.label, width, device, seed, feature_type)
    random = torch.Generator(device).manual_seed(seed + 1)
    chosen = torch.randperm(num_nodes, device=device, generator=random)[: max(2, num_nodes // labelled)]
    cut = max(1, len(chosen) * 9 // 10)
    nodes = {"train_mask": chosen[:cut].cpu(), "val_mask": chosen[cut:].cpu()}
    none = torch.zeros(num_nodes, dtype=torch.bool)
    masks = {name: none.index_fill(0, each, True) for name, each in nodes.items()}
    rows = Graph.from_csr(made.ptr.cpu(), made.col.cpu(), symmetric=True)  # as from files: on the host
    data = Data(graph=rows, x=x, y=made.label.cpu(), num_nodes=num_nodes, num_classes=CLASSES, **masks)
    if x.dtype == torch.int8:
        data.x_scale = torch.full((width,), SCALE)
    return Task(data, facts | clock.seconds)


def _features(label: Tensor, width: int, device: str, seed: int, dtype: torch.dtype | None = None) -> Tensor:
    """A noisy sign of its class at each node: too faint to read at one node, clear in the mean of a neighbourhood."""
    random, centre = feature_centres(width, device, seed)
    x = torch.empty(len(label), width, dtype=dtype or (torch.bfloat16 if device == "cuda" else torch.float32))
    # fresh pages, and those that a GPU cannot copy to itself, come slowly to one thread
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        list(pool.map(torch.Tensor.zero_, x.split(PIECE)))
        for rows, values in feature_pieces(label, centre, random, x.dtype):
            list(pool.map(torch.Tensor.copy_, x[rows].split(PIECE // 16), values.split(PIECE // 16)))
    return x


def feature_centres(width: int, device: str, seed: int = 0) -> tuple[torch.Generator, Tensor]:
    """Where the noise comes from, and the centre of each class, `[C, F]`."""
    random = torch.Generator(device).manual_seed(seed + 2)
    return random, torch.randn(CLASSES, width, device=device, generator=random) * 0.5


def feature_pieces(
    label: Tensor, centre: Tensor, random: torch.Generator, dtype: torch.dtype
) -> Iterator[tuple[slice, Tensor]]:
    """The features of some rows at a time, `[n, F]`, on the host; the next piece takes the place of the last."""
    stage = torch.empty(PIECE, centre.shape[1], dtype=dtype, pin_memory=label.is_cuda)
    for start in range(0, len(label), PIECE):
        some = label[start : start + PIECE]
        noise = torch.randn(len(some), centre.shape[1], device=label.device, generator=random)
        values = centre[some] + 2 * noise
        if dtype == torch.int8:
            values = (values / SCALE).round_().clamp_(-127, 127)
        values = stage[: len(some)].copy_(values.to(dtype))
        yield slice(start, start + len(some)), values


SCHEDULES: dict[str, dict[str, Any]] = {
    "partitioned": {"schedule": "partitioned", "rounds": 3},
    "synchronous": {"schedule": "held_cut", "rounds": 3, "schedule_options": {"intra": 1}},  # nodes by subgraph
    "held_cut": {"schedule": "held_cut", "rounds": 1, "schedule_options": {"intra": 3}},
}


def recipe_of(epochs: int, precision: str = "bf16_states") -> Recipe:
    """Plain full-batch epochs, the last of which is validated."""
    return Recipe(epochs=epochs, precision=precision, weight_decay=0.0, clip=0.0, check_every=epochs, patience=0)


def assemble(task: Task, parts: int | str, name: str, recipe: Recipe, **arguments: Any) -> Assembly:
    """The training of a gated network under a schedule, by the assembly that `gpnn train` uses."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = {"hidden_channels": task.facts["width"], "model_options": {"cell": "gru", "concat": "none"}}
    pipeline = Pipeline(
        partition="clustered",
        k=parts,
        device=device,
        **(SCHEDULES[name] | network | arguments),
    )
    return pipeline.assemble(task.data, recipe, keep_schedule=False)


def train(task: Task, parts: int | str, name: str, *, epochs: int, **arguments: Any) -> dict[str, Any]:
    """Assemble and train: seconds and memory of the epochs, what was estimated, and what it came to."""
    clock, recipe = Clock(), recipe_of(epochs)
    with clock.time("partition and lower"):
        made = assemble(task, parts, name, recipe, **arguments)
    assert made.engine is not None
    print(f"  {made.engine}", flush=True)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    result = fit(made.model, made.data, made.plan, recipe=recipe, callbacks=[_Printer()])
    bare = sorted(record["seconds"] for record in result.history[1:] if "val_loss" not in record)
    peak = torch.cuda.max_memory_allocated()
    return {
        **task.facts,
        **clock.seconds,
        "parts": made.pipeline.k,
        "rounds": made.plan.num_rounds,
        "messages": made.plan.num_messages,
        "updates": made.plan.num_updates,
        "engine": made.engine.name,
        "seconds": round(bare[len(bare) // 2], 3) if bare else None,
        "with validation": round(result.history[-1]["seconds"], 3),
        "GiB": gib(peak),
        "reserved GiB": gib(torch.cuda.max_memory_reserved()),
        "estimated GiB": gib(replace(made.engine.estimate, scoring=0.0).peak),  # no predictions are made here
        "with predictions estimated GiB": gib(made.engine.estimate.peak),
        "host GiB": gib(anonymous_bytes()),
        "estimated host GiB": gib(made.engine.estimate.host),
        "val_accuracy": round(result.metrics["val_accuracy"], 4),
        "history": [{key: _round(value) for key, value in record.items()} for record in result.history],
    }


def compare_features(num_nodes: int, num_edges: int, width: int, *, device: str = "cuda") -> dict[str, float]:
    """How far gradients of features in 8 bits are from those of the same features in 16, relative, held cut."""
    gradients: dict[str, list[Tensor]] = {}
    for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.int8):
        task = prepare(num_nodes, num_edges, width=width, device=device, feature_type=kind)
        made = assemble(task, max(2, num_nodes >> 19), "held_cut", recipe_of(1), engine="streamed")
        fit(made.model, made.data, made.plan, recipe=recipe_of(1))
        gradients[str(kind)[6:]] = [each.grad.double() for each in made.model.parameters() if each.grad is not None]
        del made, task
    expected, found = gradients.pop("bfloat16"), {"nodes": num_nodes}
    for name, ours in gradients.items():
        whole = [torch.cat([each.flatten() for each in some])[None] for some in (ours, expected)]
        found |= {f"of all gradients, {name}": _largest(whole[:1], whole[1:])}
        found |= {f"largest relative difference of gradients, {name}": _largest(ours, expected)}
    return found


def compare_engines(
    num_nodes: int,
    num_edges: int,
    width: int,
    engines: tuple[str, str],
    *,
    device: str = "cuda",
    graph: str = "planted",
    **arguments: Any,
) -> dict[str, Any]:
    """The largest relative difference of a gradient in float32 under two engines, and of each to float64."""
    task, found = prepare(num_nodes, num_edges, width=width, device=device, graph=graph), []
    task.data.x = task.data.x.float()
    for engine, double in ((engines[0], False), (engines[1], False), (engines[1], True)):
        made = assemble(task, 8, "synchronous", recipe_of(1, "float32"), engine=engine, **arguments)
        if double:
            made.model.double()
            made.data.x = made.data.x.double()
        fit(made.model, made.data, made.plan, recipe=recipe_of(1, "float32"))
        known = {name: each.grad for name, each in made.model.named_parameters() if each.grad is not None}
        found.append([each.double() for each in known.values()])
        del made
    for name, *grads in zip(known, *found, strict=True):
        pairs = ((0, 1), (0, 2), (1, 2))
        print(f"  {name}: " + ", ".join(f"{_largest([grads[a]], [grads[b]]):.1e}" for a, b in pairs), flush=True)
    return {
        "graph": graph,
        "nodes": num_nodes,
        "largest relative difference of gradients": _largest(found[0], found[1]),
        f"of {engines[0]} to float64": _largest(found[0], found[2]),
        f"of {engines[1]} to float64": _largest(found[1], found[2]),
    }


def _largest(ours: list[Tensor], theirs: list[Tensor]) -> float:
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def one_pass(made: Assembly) -> Callable[[], None]:
    """A pass there and back over labelled nodes, without an optimiser."""
    x = made.data.x.to(made.plan.device)
    rows = made.data.train_mask.nonzero().flatten().to(made.plan.device)

    def work() -> None:
        with states_in(torch.bfloat16):
            loss = made.model.loss(x, made.plan, rows, lambda scores, _: scores.sum())
            (made.model(x, made.plan, rows=rows).sum() if loss is None else loss).backward()

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
