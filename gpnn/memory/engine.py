"""choose_engine: how a training is run, so that it fits in memory, decided before the first epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.engine import Plan, Streamed
from gpnn.engine.blockwise_backward import ends_independently, is_one_blockwise_round
from gpnn.engine.propagate import Runner, streamed_runner
from gpnn.engine.recompute import PART_DEVICES
from gpnn.memory.available import available_bytes
from gpnn.memory.estimate import Estimate, estimate_memory
from gpnn.nn import GPNN
from gpnn.train.recipe import Recipe

MARGIN = 0.85  # of what is free, which others may take, for an estimate that may be a little short
GIVEN_MARGIN = 0.95  # of what a process is given, which nobody else takes
DEVICE_MARGIN = 0.93  # of a GPU's memory, the same; torch cannot use all of what it holds
MANY_NODES = 1 << 22  # from here on a GPU is busy with one block for longer than the CPU takes to start its kernels
FEW_EDGES = 0.1  # of a block's edges: parts that have no more take little memory
FEW_SCORED = 0.125  # of all nodes, whose states predictions hold at one time where there is little room
MOST_DIVISIONS = 4  # a graph is divided this often, to find a number of subgraphs that fits

Result = TypeVar("Result")


class Engine(NamedTuple):
    """A way to run a training.

    Attributes:
        words: the way in words.
        runner: what :func:`gpnn.engine.propagate` takes, given the folder for files.
        needs_folder: whether it writes files.
        devices: the kinds of device that it is for.
        maps_features: whether the features lie in files too.
        exact: whether it gives the numbers of all others; one that does not is taken by name only.
    """

    words: str
    runner: Callable[[Path | str | None], str | Runner]
    needs_folder: bool = False
    devices: tuple[str, ...] = ("cpu", "cuda")
    maps_features: bool = False
    exact: bool = True


ENGINES: dict[str, Engine] = {  # the fastest first
    "fused": Engine("fused", lambda folder: "fused"),
    "streamed_phases": Engine(
        "streamed, states between rounds and phases in memory", lambda folder: Streamed(phases=True), devices=("cpu",)
    ),
    "streamed": Engine("streamed, states between rounds in memory", lambda folder: "streamed"),
    "streamed_features": Engine(
        "streamed, features in host memory", lambda folder: Streamed(features="cpu"), devices=("cuda",)
    ),
    "streamed_host": Engine(
        "streamed, features and states between rounds in host memory",
        lambda folder: Streamed(device="cpu", features="cpu"),
        devices=("cuda",),
    ),
    "streamed_disk": Engine(
        "streamed, states between rounds in files", lambda folder: Streamed(folder=folder), needs_folder=True
    ),
    "streamed_bf16": Engine(
        "streamed, states between rounds in memory as bfloat16",
        lambda folder: Streamed(dtype=torch.bfloat16),
        exact=False,
    ),
    "mapped": Engine(
        "streamed, states between rounds and features in files",
        lambda folder: Streamed(folder=folder, features="disk"),
        needs_folder=True,
        devices=("cpu",),
        maps_features=True,
    ),
}


@dataclass(frozen=True)
class EngineChoice:
    """How a training is run.

    Attributes:
        name: a name of `ENGINES`.
        runner: what :func:`gpnn.engine.propagate` takes.
        estimate: its memory.
    """

    name: str
    runner: str | Runner
    estimate: Estimate

    def __str__(self) -> str:
        return f"{ENGINES[self.name].words}; estimated memory {self.estimate}"


class DoesNotFit(ValueError):
    """A training that fits in memory in no way.

    Attributes:
        estimate: of the way that takes least.
        budget: bytes that its estimate may have.
    """

    def __init__(self, message: str, estimate: Estimate, budget: float) -> None:
        super().__init__(message)
        self.estimate, self.budget = estimate, budget

    @property
    def reason(self) -> str:
        """What it would take and what there is, in a few words."""
        return f"{self.estimate} where there are {self.budget / 1e9:.1f} GB"

    def more_parts(self, k: int) -> int | None:
        """A number of subgraphs, at least twice `k`, with which it may fit; None: smaller ones would not help."""
        missing, piece = self.estimate.peak - self.budget, self.estimate.piece
        if missing >= piece:
            return None
        return max(2 * k, math.ceil(1.25 * k * piece / (piece - missing)))  # a quarter more: parts are not equal


def build_within_memory(build: Callable[[int], Result], k: int, most: int) -> Result:
    """`build(k)`; where that :class:`DoesNotFit`, `build` of more subgraphs, at most `most`, as long as it may help."""
    for _ in range(MOST_DIVISIONS - 1):
        try:
            return build(k)
        except DoesNotFit as refusal:
            more = refusal.more_parts(k)
            if more is None or k >= most:
                raise
            k = min(more, most)
    return build(k)


def choose_engine(
    model: GPNN,
    x: Tensor | None,
    plan: Plan,
    recipe: Recipe,
    *,
    engine: str = "auto",
    memory: float | None = None,
    device_memory: float | None = None,
    folder: Path | str | None = None,
    sharing: int = 1,
    rows: int | None = None,
    train: Tensor | None = None,
) -> EngineChoice:
    """The fastest exact way to train that fits in memory, of `ENGINES`; a way that is named is taken as it is.

    Args:
        model: at its initial weights, on the plan's device.
        x: features, dense or sparse, or None.
        plan: the lowered schedule.
        recipe: how it is trained.
        engine: "auto" or a name of `ENGINES`.
        memory: bytes that the process may take; None is what is free.
        device_memory: bytes that it may take of its GPU, where the plan is on one; None is what is free there.
        folder: where states and features may be kept in memory-mapped files; None allows none.
        sharing: how many processes on this machine divide what is free.
        rows: how many nodes' outputs an epoch takes, at most; None: all.
        train: the nodes that the loss is taken of, `[n]`, where that is known.

    Raises:
        ValueError: when the engine is unknown, lacks its folder, or is not for this plan.
        DoesNotFit: when nothing fits, with what would make it fit.
    """
    budget = host = host_budget(memory, sharing=sharing)
    if plan.device.type == "cuda":
        free = available_bytes(plan.device, sharing=sharing) if device_memory is None else device_memory
        budget = DEVICE_MARGIN * free  # torch is held to what is given

    def estimate(runner: str | Runner, how: Recipe = recipe) -> Estimate:
        return estimate_memory(model, x, plan, how, runner, rows=rows, train=train, budget=budget)

    ways = []
    for name, runner in _ways(engine, plan, folder):
        found = estimate(runner)
        if ENGINES[name].maps_features and x is not None:
            found = _without_features(found, x)
        ways.append(EngineChoice(name, runner, found))
        if found.peak <= budget and found.host <= host:
            return ways[-1]
    choice = min(ways, key=lambda way: way.estimate.peak)
    if engine != "auto":
        return choice
    others = [
        words for words, runner, how in _others(plan, recipe, choice, folder) if estimate(runner, how).peak <= budget
    ]
    raise DoesNotFit(_refusal(choice, budget, plan, folder, others), choice.estimate, budget)


def _others(
    plan: Plan, recipe: Recipe, choice: EngineChoice, folder: Path | str | None
) -> Iterator[tuple[str, str | Runner, Recipe]]:
    """Trainings that give other numbers and may fit: in words, with their runners and recipes."""
    if plan.runners is None:
        rounded = ENGINES["streamed_bf16"].runner(folder)
        yield "engine=streamed_bf16, which rounds the states between rounds", rounded, recipe
    if is_one_blockwise_round(plan) and recipe.precision == "float32":
        rounding = replace(recipe, precision="bf16_states")
        yield "train.precision=bf16_states, which stores states in 16 bits", choice.runner, rounding
    if recipe.consistency:
        single = replace(recipe, passes=1, consistency=0.0)
        words = "train.passes=1 train.consistency=0, which needs no outputs of all nodes at once"
        yield words, choice.runner, single


def host_budget(memory: float | None = None, *, sharing: int = 1) -> float:
    """Bytes that an estimate may have on a CPU, so that the process stays below what it may take.

    Args:
        memory: bytes that the process may take; None is what is free.
        sharing: how many processes on this machine divide what is free.
    """
    return MARGIN * available_bytes(sharing=sharing) if memory is None else GIVEN_MARGIN * memory


def check_memory(what: str, estimate: Estimate, memory: float | None = None) -> None:
    """Raise DoesNotFit when something takes more than the process may.

    Args:
        what: it is, as a sentence begins with it.
        estimate: of what it takes.
        memory: bytes that the process may take; None is what is free.
    """
    budget = host_budget(memory)
    if estimate.peak > budget:
        need = f"Got about {estimate}."
        raise DoesNotFit(f"{what} must fit in {budget / 1e9:.1f} GB of memory. {need}", estimate, budget)


def _ways(engine: str, plan: Plan, folder: Path | str | None) -> Iterator[tuple[str, str | Runner]]:
    """The engines to try with their runners.

    Of the states between rounds first few are on the host, then more; predictions hold the states of all nodes, then of
    few; parts of blocks, which a GPU takes, have any number of edges, then few.
    """
    for name in _names(engine, plan, folder):
        runner = ENGINES[name].runner(folder)
        if name == "streamed_host" and isinstance(runner, Streamed):
            for near in reversed(range(1, plan.num_rounds - 1)):
                yield name, replace(runner, near=near)
        yield name, runner
        streamed = streamed_runner(runner)
        if streamed is not None and plan.device.type in PART_DEVICES and ends_independently(plan):
            shares = (1.0, FEW_SCORED) if is_one_blockwise_round(plan) else (1.0,)
            ways = [(edges, share) for edges in (1.0, FEW_EDGES) for share in shares]
            yield from ((name, replace(streamed, part_edges=edges, scored=share)) for edges, share in ways[1:])


def check_engine(engine: str, folder: Path | str | None) -> None:
    """Raise ValueError unless `engine` is "auto" or in `ENGINES`, with a folder where it needs one."""
    check_choice("engine", engine, ("auto", *ENGINES))
    if engine != "auto" and ENGINES[engine].needs_folder and folder is None:
        raise ValueError(f"`engine` {engine!r} needs a folder for its files, `disk`. Got none.")
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise ValueError(f"`disk` must be a folder. {str(folder)!r} is not.")


def _names(engine: str, plan: Plan, folder: Path | str | None) -> list[str]:
    """The engines to try, in turn."""
    check_engine(engine, folder)
    if plan.runners is not None and engine not in ("auto", *plan.runners):
        known = ", ".join(["auto", *plan.runners])
        raise ValueError(f"Under several processes `engine` must be one of {known}. Got {engine!r}.")
    if engine != "auto":
        return [engine]
    fits = {name: each for name, each in ENGINES.items() if each.exact and plan.device.type in each.devices}
    names = [name for name, each in fits.items() if folder is not None or not each.needs_folder]
    if plan.device.type == "cuda" and plan.num_nodes >= MANY_NODES and ends_independently(plan):
        names.sort(key=lambda name: name == "fused")  # blocks that are differentiated as they are done stay in cache
    if all(len(phases) != 2 for phases in plan.rounds[:-1]):
        names = [name for name in names if name != "streamed_phases"]  # there is nothing more to keep
    return [name for name in names if plan.runners is None or name in plan.runners]


def _without_features(estimate: Estimate, x: Tensor) -> Estimate:
    """The same when the features leave memory."""
    held = x.numel() * x.element_size() if x.layout == torch.strided else 12 * x.values().numel()
    return replace(estimate, resident=max(0.0, estimate.resident - held))


def _refusal(least: EngineChoice, budget: float, plan: Plan, folder: Path | str | None, others: list[str]) -> str:
    """Why nothing fits, and what would: `others`, and what is known from the estimate."""
    estimate = least.estimate
    fixed = estimate.resident + estimate.plan + estimate.features + estimate.parameters
    share = (budget - fixed) / max(1.0, estimate.peak - fixed)
    margin = DEVICE_MARGIN if plan.device.type == "cuda" else GIVEN_MARGIN
    ways = [f"{estimate.peak / margin / 1e9:.1f} GB of memory", *others]
    if plan.num_nodes >= MANY_NODES and plan.runners is None and not is_one_blockwise_round(plan):
        ways.append("recipe=large, which keeps no state of the whole graph while it trains")
    if folder is None and plan.runners is None:
        ways.append("disk=FOLDER, which lets states and features lie in files")
    if share > 0.05:
        ways.append(f"about {share:.0%} of the hidden channels")
    return (
        f"Training must fit in {budget / 1e9:.1f} GB of memory. Got at least {estimate} for {plan.num_nodes:,} nodes "
        f"({ENGINES[least.name].words}). What would make it fit: {'; or '.join(ways)}."
    )
