"""Cost: the seconds and bytes of one training pass, by phase."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.distributed import group_of
from gpnn.engine import Block, CellLike, Plan, Step, recomputes
from gpnn.engine.propagate import RUNNERS, Runner
from gpnn.nn import GPNN, MaskKey
from gpnn.report.record import Chart, Section, Table, Trace, color, horizontal_bars
from gpnn.text import size
from gpnn.train.evaluate import autocast, products

if TYPE_CHECKING:
    from gpnn.report.record import Record

OUTSIDE = "encoder and head"
PASSES, LONGEST = 3, 2.0  # passes to take the median of, and the seconds after which no other begins


@dataclass(frozen=True)
class Cost:
    """What one forward and backward pass in training mode takes.

    Attributes:
        seconds: of the forward pass, by kind of phase, and of the encoder and the head.
        kept: bytes of states that the forward pass keeps for the backward pass, likewise.
        backward: seconds of the backward pass.
        peak: the most bytes that the process held (on a GPU: that tensors took) since it began.
        device: "cpu" or "cuda".
        threads: CPU threads.
    """

    seconds: dict[str, float]
    kept: dict[str, int]
    backward: float
    peak: int | None
    device: str
    threads: int = field(default_factory=torch.get_num_threads)

    @property
    def total(self) -> float:
        return sum(self.seconds.values()) + self.backward


def measure_cost(model: GPNN, x: Tensor | None, plan: Plan, *, precision: str = "float32", seed: int = 0) -> Cost:
    """Take three passes and return the one of median time; weights, gradients and random states stay as they are.

    None begins after two seconds. Several processes take one pass: all must take as many.

    Args:
        model: on the plan's device.
        x: features, `[N, F]`, or None.
        plan: the lowered schedule.
        precision: "float32", "tf32" or "bf16".
        seed: names the random masks.
    """
    training, runner, began = model.training, model.runner, time.monotonic()
    costs: list[Cost] = []
    passes = PASSES if group_of(plan).size == 1 else 1
    model.train()
    try:
        while len(costs) < passes and (not costs or time.monotonic() - began < LONGEST):
            with products(precision):
                costs.append(_measure(model, x, plan, runner, precision, seed))
    finally:
        model.runner = runner
        model.train(training)
    return sorted(costs, key=lambda cost: cost.total)[len(costs) // 2]


def _measure(model: GPNN, x: Tensor | None, plan: Plan, runner: Any, precision: str, seed: int) -> Cost:
    clock = _Clock(plan.device, set(_storages([*model.parameters(), *([] if x is None else [x])])))
    table = RUNNERS if plan.runners is None else plan.runners
    run = table[runner or "fused"] if runner is None or isinstance(runner, str) else runner
    model.runner = _TimedRunner(run, clock, recomputes(runner))
    with clock.forward(), autocast(model, precision):
        logits = model(x, plan, key=MaskKey(seed, 0, 0))
    weights = [each for each in model.parameters() if each.requires_grad]
    began = clock.now()
    torch.autograd.grad(logits.float().logsumexp(1).sum(), weights, allow_unused=True)
    backward = clock.now() - began
    return Cost(clock.seconds, clock.kept, backward, _peak(plan.device), plan.device.type)


@dataclass
class _Clock:
    """Who spends the time of a forward pass, and who keeps which storage for the backward pass."""

    device: torch.device
    seen: set[int]
    seconds: dict[str, float] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    kind: str = OUTSIDE
    running: bool = False

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Time the whole pass; what no phase took is the encoder's and the head's."""
        self.running, began = True, self.now()
        with torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor):
            yield
        self.running, whole = False, self.now() - began
        self.seconds = {OUTSIDE: max(0.0, whole - sum(self.seconds.values())), **self.seconds}

    @contextmanager
    def phase(self, kind: str) -> Iterator[None]:
        """Time one step; a runner that recomputes it in the backward pass is not timed again."""
        if not self.running:
            yield
            return
        self.kind, began = kind, self.now()
        yield
        self.seconds[kind] = self.seconds.get(kind, 0.0) + self.now() - began
        self.kind = OUTSIDE

    def _keep(self, tensor: Tensor) -> Tensor:
        for storage, num_bytes in _storages([tensor]).items():
            if storage not in self.seen:
                self.seen.add(storage)
                self.kept[self.kind] = self.kept.get(self.kind, 0) + num_bytes
        return tensor


@dataclass(frozen=True)
class _TimedRunner:
    """A runner whose cell's steps are timed; encoder and head treat it as they treat the runner itself."""

    run: Runner
    clock: _Clock
    recomputes: bool

    def __call__(self, cell: CellLike, *args: Any, **kwargs: Any) -> list[Tensor]:
        return self.run(_TimedCell(cell, self.clock), *args, **kwargs)


class _TimedCell:
    """A cell whose steps are timed; all else is the cell's own."""

    def __init__(self, cell: CellLike, clock: _Clock) -> None:
        self._cell, self._clock = cell, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cell, name)

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        with self._clock.phase(step.kind):
            return self._cell.advance(block, inputs, step)

    def advance_steps(
        self, block: Block, inputs: Tensor, steps: Sequence[Step], rows: Tensor | None = None
    ) -> Tensor | None:
        together = getattr(self._cell, "advance_steps", None)
        with self._clock.phase(steps[0].kind):
            return None if together is None else together(block, inputs, steps, rows)


def _storages(tensors: list[Tensor]) -> dict[int, int]:
    """The bytes of each storage behind these tensors, by its address."""
    found = {}
    for tensor in tensors:
        parts = [tensor] if tensor.layout == torch.strided else [tensor.values()]
        for part in parts:
            storage = part.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found


def _peak(device: torch.device) -> int | None:
    """The most bytes held so far: tensors on a GPU, the whole process on a CPU; None where it is not known."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def time_memory(record: Record) -> Section | None:
    """Seconds and kept bytes of one training pass by phase; None where they were not measured."""
    cost = record.cost
    if cost is None:
        return None
    times = [row["seconds"] for row in record.history if row.get("seconds") is not None]
    lead = f"One forward and backward pass, measured after training on {cost.device}"
    lead += f" with {cost.threads} thread{'s' if cost.threads > 1 else ''}." if cost.device == "cpu" else "."
    if record.shares:
        lead += f" The first of {len(record.shares)} processes: its nodes, and its waiting for the others."
    lead += " Kept: what the forward pass keeps for the backward pass, each tensor once."
    rows: list[tuple[str, str]] = [
        ("forward pass", f"{sum(cost.seconds.values()):.4g} s"),
        ("backward pass", f"{cost.backward:.4g} s"),
    ]
    if times:
        rows.append(("median epoch", f"{sorted(times)[len(times) // 2]:.4g} s"))
        rows.append(("all epochs", f"{sum(times):.4g} s"))
    rows.append(("kept for the backward pass", size(sum(cost.kept.values()))))
    if cost.peak is not None:
        rows.append(
            ("peak of the process" if cost.device == "cpu" else "peak of the device's tensors", size(cost.peak))
        )
    return Section("cost", "Time and memory", lead, [_chart(cost), Table("In all", ("", "value"), rows)])


def _chart(cost: Cost) -> Chart:
    names = [*cost.seconds, "backward pass"]
    seconds = [*cost.seconds.values(), cost.backward]
    order = {name: number for number, name in enumerate(names)}
    views = {"time": [_bars(names, [1000 * s for s in seconds], order, "%{x:.3g} ms")]}
    kept = {name: value for name, value in cost.kept.items() if value}
    if kept:
        texts = [size(value) for value in kept.values()]
        bars = _bars(list(kept), [value / 2**20 for value in kept.values()], order, "%{text} kept")
        views["memory"] = [bars | {"text": texts}]
    layout = {
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
        "xaxis": {"rangemode": "tozero"},
    }
    alt = "; ".join(f"{name}: {1000 * s:.3g} ms" for name, s in zip(names, seconds))
    return Chart("cost-phases", "By phase (milliseconds, MiB)", alt, views, layout, max(260, 90 + 44 * len(names)))


def _bars(names: list[str], values: list[float], order: dict[str, int], hover: str) -> Trace:
    colors = [color(order[name]) for name in names]
    return horizontal_bars([float(f"{value:.4g}") for value in values], names, colors, "%{y}: " + hover)
