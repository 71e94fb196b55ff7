"""Which weights of a training in mini-batches are kept, and with what settings: `sampled` on development splits.

    python -m benchmarks.kept_weights [--jobs 1] [--settings NAME …] [--graphs cora citeseer] [--splits 5] [--public]

Each training has its full number of epochs, after each of which the validation and the held-out nodes are predicted by
the weights of the last step and by two running averages of the weights. A line of `results/kept_weights.jsonl` is one
training, with what each rule would have kept: `accuracy` (the best; ties by loss), `loss` (the least), `both` (the last
check at which neither accuracy nor loss was worse than at the one kept before, GRAND's rule) and `last`. Held out are
nodes that are neither in the development split's training and validation nor in the public test set, so that nothing
here has read the latter. Finished lines are not run again; `results/kept_weights.md` is the table of all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from benchmarks.lines import read_lines, row, write_lines_page
from experiments.harness.settings import lay_over

RESULTS = Path(__file__).parent / "results" / "kept_weights.jsonl"
AVERAGES = {"step": 0.0, "average 0.9": 0.9, "average 0.97": 0.97}  # decay per epoch of ten steps
RULE: dict[str, Any] = {
    "device": "cpu",
    "data": {"scale_features": "rows", "undirected": True},
    "schedule": {"name": "synchronous", "self_loops": True, "normalization": "graph", "rounds": 10},
    "model": {
        "cell": "linear",
        "cell_options": {"alpha": 0.2},
        "predict": "features",
        "readout": "last",
        "activation": "relu",
        "concat": "none",
        "hidden_channels": 64,
        "drop_node": 0.5,
        "input_dropout": 0.5,
        "dropout": 0.2,
    },
    "train": {
        "epochs": 400,
        "patience": 0,
        "clip": 0.0,
        "passes": 2,
        "batch": 100,
        "labelled": 50,
        "consistency": 1.5,
        "consistency_warmup": 100,
        "temperature": 0.1,
        "weight_decay": 1e-3,
        "learning_rate": 0.01,
    },
}
PLAIN = {"model": {"hidden_channels": 256, "input_dropout": 0.0, "dropout": 0.0}}
SLOW = {"train": {"learning_rate": 0.001, "consistency": 0.8}}
SETTINGS: dict[str, dict[str, Any]] = {
    "rule": {},
    "dropout 0.7": {"model": {"dropout": 0.7}},
    "dropout 0.5": {"model": {"dropout": 0.5}},
    "α 0.4": {"model": {"cell_options": {"alpha": 0.4}}},
    "α 0.1": {"model": {"cell_options": {"alpha": 0.1}}},
    "mean of 4": {"schedule": {"rounds": 4}, "model": {"readout": "mean", "cell_options": {"alpha": 0.0}}},
    "mean of 2": {"schedule": {"rounds": 2}, "model": {"readout": "mean", "cell_options": {"alpha": 0.0}}},
    "20 steps": {"schedule": {"rounds": 20}},
    "plain": lay_over(PLAIN, SLOW),
    "plain, α 0.4": lay_over(PLAIN, SLOW, {"model": {"cell_options": {"alpha": 0.4}}}),
    "plain, dropout 0.5 of the input": lay_over(PLAIN, SLOW, {"model": {"input_dropout": 0.5}}),
    "plain, rate 0.003": lay_over(PLAIN, SLOW, {"train": {"learning_rate": 0.003}}),
    "256 channels": {"model": {"hidden_channels": 256}},
    "λ 0.8": {"train": {"consistency": 0.8}},
    "λ 2.5": {"train": {"consistency": 2.5}},
    "decay 5e-4": {"train": {"weight_decay": 5e-4}},
    "decay 3e-4": {"train": {"weight_decay": 3e-4}},
    "rate 0.003": {"train": {"learning_rate": 0.003}},
    "temperature 0.3": {"train": {"temperature": 0.3}},
    "400 others": {"train": {"batch": 400}},
    "all labelled": {"train": {"labelled": 1000}},
    "node dropout 0.3": {"model": {"drop_node": 0.3}},
    "node dropout 0.7": {"model": {"drop_node": 0.7}},
    "slow ramp": {"train": {"consistency_warmup": 200}},
    "threshold 0.6": {"train": {"consistency_threshold": 0.6}},
    "raw features": {"data": {"scale_features": "none"}},
}


def run(graph: str, split: int, setting: str) -> dict[str, Any]:
    """One training, from scratch; what each rule keeps of each weights."""
    from experiments.harness.kinds.training import build_cell
    from experiments.harness.machine import describe_machine
    from gpnn.train.trainer import Trainer

    torch.set_num_threads(1)
    data = {"name": graph} | ({} if split < 0 else {"split": "development", "seed": split})
    began = time.process_time()
    built = build_cell(lay_over(RULE, SETTINGS[setting], {"data": data}), max(split, 0))
    trainer = Trainer.of(built.model, built.data, built.plan, built.config.train, built.config.seed)
    averages: dict[str, dict[str, torch.Tensor]] = {}
    curves: dict[str, list[tuple[float, float, float]]] = {name: [] for name in AVERAGES}
    history: list[dict[str, Any]] = []
    for _ in range(trainer.recipe.epochs):
        assert trainer.solver is not None
        history.append(trainer.solver.step(history)[0])
        step = {name: value.clone() for name, value in built.model.state_dict().items()}
        for name, decay in AVERAGES.items():
            bound = min(decay, len(history) / (len(history) + 10))
            before = averages.get(name, step)
            averages[name] = {key: before[key].lerp(value, 1 - bound) for key, value in step.items()}
            built.model.load_state_dict(averages[name])
            curves[name].append(_measure(trainer, built.data, held=split >= 0))
        built.model.load_state_dict(step)
    kept = {name: {rule: choose(curve, rule) for rule in RULES} for name, curve in curves.items()}
    return {
        "graph": graph,
        "split": split,
        "setting": setting,
        "kept": kept,
        "cpu_seconds": round(time.process_time() - began, 1),
        "machine": describe_machine(),
    }


def _measure(trainer: Any, data: Any, *, held: bool) -> tuple[float, float, float]:
    """Validation accuracy and loss, and the accuracy of the held-out nodes; the public test nodes are not predicted."""
    mask = data.val_mask | data.test_mask if held else data.val_mask
    rows = mask.nonzero().flatten()
    outputs = trainer.predict(rows).float()
    right = (outputs.argmax(1) == data.y[rows]).float()
    val, test = data.val_mask[rows], data.test_mask[rows]
    loss = torch.nn.functional.cross_entropy(outputs[val], data.y[rows][val])
    return float(right[val].mean()), float(loss), float(right[test].mean()) if held else math.nan


RULES = ("accuracy", "loss", "both", "last")
PAIRED = """Held-out accuracy less that of what the recipe keeps (`accuracy`, weights of the last step), in points:
mean and standard error over trainings of all settings, in brackets how many."""
ABOUT = """The first row is the recipe `sampled` in one generation: ten steps with α = 0.2, 64 channels, dropout 0.5 and
0.2, decay 1e-3, rate 0.01, λ = 1.5; each other row names what differs. *Plain*: 256 channels, no dropout, rate 0.001,
λ = 0.8, which with α = 0.4 is what GRAND+ publishes for Citeseer; dropout 0.7 and 20 steps are what it publishes for
Cora."""


def choose(curve: list[tuple[float, float, float]], rule: str) -> list[float]:
    """Epoch, validation accuracy and loss, and held-out accuracy of what a rule keeps.

    >>> curve = [(0.5, 1.0, 0.4), (0.6, 1.2, 0.5), (0.5, 0.9, 0.45)]
    >>> [choose(curve, rule)[0] for rule in RULES]
    [2, 3, 3, 3]
    """
    if rule == "accuracy":
        best = max(range(len(curve)), key=lambda at: (curve[at][0], -curve[at][1]))
    elif rule == "loss":
        best = min(range(len(curve)), key=lambda at: curve[at][1])
    else:
        best = 0 if rule == "both" else len(curve) - 1
        for at, (accuracy, loss, _) in enumerate(curve):
            if rule == "both" and accuracy >= curve[best][0] and loss <= curve[best][1]:
                best = at
    return [best + 1, *(round(value, 4) for value in curve[best])]


def table(lines: list[dict[str, Any]]) -> str:
    """The held-out accuracy of each setting under each rule, and its validation accuracy by the first one."""
    kept = [(weights, rule) for weights in AVERAGES for rule in RULES]
    head = ["setting", "splits", *(f"{weights}, {rule}" for weights, rule in kept), "public validation"]
    text = []
    for graph in dict.fromkeys(each["graph"] for each in lines):
        text += [f"**{graph}**, held-out accuracy, percent", "", row(head), row(["---"] * len(head))]
        for setting in SETTINGS:
            own = [each for each in lines if (each["graph"], each["setting"]) == (graph, setting)]
            splits = [each["kept"] for each in own if each["split"] >= 0]
            public = [each["kept"]["step"]["both"][1] for each in own if each["split"] < 0]
            means = [_mean([each[weights][rule][3] for each in splits]) for weights, rule in kept]
            text += [row([setting, str(len(splits)), *means, _mean(public)])] if own else []
        text.append("")
    return "\n".join(text)


def compare(lines: list[dict[str, Any]]) -> str:
    """What each rule keeps less what `accuracy` keeps of the last step's weights, paired over a graph's trainings."""
    graphs = list(dict.fromkeys(each["graph"] for each in lines))
    text = [row(["weights", "rule", *graphs]), row(["---"] * (2 + len(graphs)))]
    for weights, rule in ((weights, rule) for weights in AVERAGES for rule in RULES):
        cells = []
        for graph in graphs:
            kept = [each["kept"] for each in lines if each["graph"] == graph and each["split"] >= 0]
            gains = [100 * (each[weights][rule][3] - each["step"]["accuracy"][3]) for each in kept]
            error = stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else math.nan
            cells.append(f"{fmean(gains):+.2f} ± {error:.2f} [{len(gains)}]")
        text.append(row([weights, rule, *cells]))
    return "\n".join(text)


def _mean(values: list[float]) -> str:
    return f"{100 * sum(values) / len(values):.1f}" if values else "–"


def main() -> None:
    """Run what is not done, a line at a time, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--graphs", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--public", action="store_true", help="the public split's validation nodes, too")
    given = parser.parse_args()
    done = {(each["graph"], each["split"], each["setting"]) for each in read_lines(RESULTS)}
    splits = [*range(1), *([-1] if given.public else []), *range(1, given.splits)]
    todo = [(graph, split, name) for split in splits for name in given.settings for graph in given.graphs]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run, *each) for each in todo if each not in done]
        for future in as_completed(waiting):
            with RESULTS.open("a") as file:
                file.write(json.dumps(future.result(), ensure_ascii=False) + "\n")
    write_page()


def write_page() -> None:
    """The page of all finished lines."""
    lines = read_lines(RESULTS)
    about = (__doc__ or "").split("\n\n")[2].replace("\n", " ")
    parts = [about, PAIRED, compare(lines), ABOUT, table(lines)]
    count = f"{len(lines)} trainings; the others were not run."
    command = "`python -m benchmarks.kept_weights --jobs 12 --splits 3 --public`"
    write_lines_page(RESULTS, "Which weights a training in mini-batches keeps", parts, lines, count, command)


if __name__ == "__main__":
    main()
