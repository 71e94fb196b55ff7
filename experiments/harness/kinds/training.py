"""Training: one configuration of the library, trained, with what its schedule sent and what its time went to."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from experiments.harness.kinds.baseline import small_data
from experiments.harness.kinds.kind import Kind, Metrics
from experiments.harness.kinds.transfer import transfer_metrics
from experiments.harness.plain import PLAIN
from experiments.harness.settings import Settings, lay_over

if TYPE_CHECKING:
    from gpnn.build import Built
    from gpnn.config import Config
    from gpnn.train import FitResult

SMALL: Settings = {
    "device": "cpu",
    "partition": {"k": 4},
    "model": {"hidden_channels": 8},
    "train": {"epochs": 3, "check_every": 1},
}


OWN = ("kind", "target", "network", "transfer", "restarts")  # settings that are not a configuration's


def run_training(settings: Settings, seed: int) -> Metrics:
    """The metrics of :func:`gpnn.train.fit`, of its clock, and of its schedule and partition.

    Beyond a configuration the settings may have `target`: the validation accuracy whose time is taken; `network`: a
    convolution of PyG whose stack, as deep as the schedule has rounds, takes the model's place; `transfer`: options of
    the dataset for a second graph that the trained model is tested on; and `restarts`: so many trainings from other
    weights, of which the one that is best on validation counts. A training that diverged has no metrics.
    """
    starts = [_run_once(settings, seed + FURTHER * start) for start in range(settings.get("restarts", 1))]
    return max(starts, key=_validation)


FURTHER = 1000  # between the seeds of the weights of one cell


def _validation(metrics: Metrics) -> float:
    """A training's value of its own metric on the validation nodes, higher where it is better."""
    from gpnn.train.metrics import merit

    name = metrics.get("metric", "accuracy")
    value = metrics.get(f"val_{name}")
    return float("-inf") if value is None else merit(name, value)


def _run_once(settings: Settings, seed: int) -> Metrics:
    began = time.perf_counter()
    built = build_cell(settings, seed)
    result, clock = train(built, settings.get("target"))
    seconds = {"seconds_in_all": time.perf_counter() - began}
    measured = {**result.metrics, **_recall(built)} if result.problem is None else {"stopped": result.stopped}
    if result.problem is None and "transfer" in settings:
        measured |= transfer_metrics(built, result, settings["transfer"])
    return {**measured, **clock.metrics(), **_schedule_metrics(built), **seconds}


def build_cell(settings: Settings, seed: int) -> Built:
    """The objects of a cell's configuration."""
    from gpnn.build import build

    config, problems = read_config(settings, seed)
    if problems:
        raise ValueError(" ".join(problems))
    built = build(config)
    return _with_network(built, settings["network"]) if "network" in settings else built


def _with_network(built: Built, conv: str) -> Built:
    """The same objects with a stack of a convolution in the place of the model, as wide and as deep."""
    from experiments.baselines.convolution_stack import ConvolutionStack

    sizes = (built.model_arguments[name] for name in ("in_channels", "hidden_channels", "out_channels"))
    network: Any = ConvolutionStack(conv, *sizes, depth=built.plan.num_rounds, seed=built.config.seed)
    return replace(built, model=network.to(built.plan.device))


def read_config(settings: Settings, seed: int = 0) -> tuple[Config, list[str]]:
    """The configuration of a cell, the plain settings under its own, and what is wrong with it."""
    from gpnn.config import parse_config

    own = {key: value for key, value in settings.items() if key not in OWN}
    return parse_config(lay_over(PLAIN, own, {"seed": seed}))


class Seconds(NamedTuple):
    """CPU seconds of the process (user and system) and wall seconds."""

    cpu: float
    wall: float

    @classmethod
    def now(cls) -> Seconds:
        """Both clocks, once a GPU has finished its work."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return cls(time.process_time(), time.perf_counter())

    def __sub__(self, earlier: Seconds) -> Seconds:
        return Seconds(self.cpu - earlier.cpu, self.wall - earlier.wall)


class Clock:
    """A callback of a training: CPU and wall seconds, validation included, until a target and until the best epoch."""

    def __init__(self, target: float | None = None) -> None:
        self.target, self.best = target, -1.0
        self.to_target: Seconds | None = None
        self.to_best: Seconds | None = None
        self.began = Seconds.now()

    def start(self, history: list[dict[str, Any]]) -> None:
        """Training begins."""
        self.began = Seconds.now()

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch is done; it may have been validated."""
        value = record.get("val_accuracy")
        if value is None:
            return
        elapsed = Seconds.now() - self.began
        if value > self.best:
            self.best, self.to_best = value, elapsed
        if self.target is not None and self.to_target is None and value >= self.target:
            self.to_target = elapsed

    def metrics(self) -> Metrics:
        """Seconds in all and until what was watched, of the CPU and of the wall; None where it was not reached."""
        watched = {"": Seconds.now() - self.began, "_to_best": self.to_best, "_to_target": self.to_target}
        return {
            f"{clock}_seconds{until}": None if seconds is None else getattr(seconds, clock)
            for clock in ("cpu", "wall")
            for until, seconds in watched.items()
        }


def train(built: Built, target: float | None = None) -> tuple[FitResult, Clock]:
    """A cell's objects, trained, and the clock that watched."""
    from gpnn.train import fit

    clock, config = Clock(target), built.config
    result = fit(built.model, built.data, built.plan, recipe=config.train, seed=config.seed, callbacks=[clock])
    return result, clock


def _schedule_metrics(built: Built) -> Metrics:
    plan = built.plan
    measured: Metrics = {"num_messages": plan.num_messages, "num_updates": plan.num_updates}
    measured["messages_per_edge"] = plan.num_messages / max(1, built.data.num_edges)
    if built.partition is not None:
        quality = built.partition.quality(built.data)
        measured |= {"parts": quality.num_parts, "edge_cut": quality.edge_cut, "balance": quality.balance}
    return measured


def _recall(built: Built) -> Metrics:
    """The recall of gold pairs, where the dataset has any."""
    from gpnn.data import recall_at_k
    from gpnn.train import predict_logits, probabilities

    if built.data.get("gold_class") is None:
        return {}
    x = built.data.get("x")
    logits = predict_logits(built.model, None if x is None else x.to(built.plan.device), built.plan)
    return {"test_recall": recall_at_k(built.data, probabilities(logits).cpu())}


def shrink_training(settings: Settings) -> Settings:
    """The same on a small graph, with narrow states and at most two rounds, for three epochs."""
    rounds = settings.get("schedule", {}).get("rounds", "auto")
    few = rounds if rounds == "auto" else min(rounds, 2)
    small = lay_over({**settings, "data": small_data(settings)}, SMALL, {"schedule": {"rounds": few}})
    if "transfer" in settings:
        small["transfer"] = {"seed": 1}
    whole = small["partition"].get("method") == "components"  # of which the small graph has one
    return lay_over(small, {"partition": {"k": 1}}) if whole else small


def _problems(settings: Settings) -> list[str]:
    from experiments.baselines.convolution_stack import CONVOLUTIONS

    network = settings.get("network", "gcn")
    known = ", ".join(CONVOLUTIONS)
    unknown = [] if network in CONVOLUTIONS else [f"`network` must be one of {known}. Got {network!r}."]
    return read_config(settings)[1] + unknown


TRAINING = Kind(run_training, shrink_training, _problems)
