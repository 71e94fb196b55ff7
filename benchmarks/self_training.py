"""What a model gains that learns, beside the labels, what it predicts itself: recipes and races on development splits.

    python -m benchmarks.self_training [--graphs cora citeseer] [--splits 8] [--first 10] [--jobs 2]
        [--settings NAME …]

A line of `results/self_training.jsonl` is one training, or one race, on one split. Accuracy and log loss of the
held-out nodes are those of nodes that are neither in the development split's training and validation nor in the public
test set, so that nothing here has read the latter. The recipe `self_trained` has three generations of 150 epochs:
each starts anew and learns, beside the training labels, the labels that the best weights so far predict most surely,
as many of each class (`gpnn/train/self_training.py`). A setting changes one thing of it. The recipe `sampled` has
mini-batches (`sampled_unit` where columns are few), and the same generations where that is said. Races are what `gpnn
train` does, but for offsets of classes: *without* the recipe, *with* it, and with it *instead* of `averaged`; and the
latter with mini-batches in generations. Finished lines are not run again; `results/self_training.md` is the table of
all of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.blend_rules import make_starts, score
from benchmarks.lines import read_lines, row, write_lines_page
from benchmarks.random_propagation import load

RESULTS = Path(__file__).parent / "results" / "self_training.jsonl"
COMMAND = "python -m benchmarks.self_training --jobs 2"
OWN, BASE = "self_trained", "averaged"
RECIPE = {"self_training": 150, "epochs": 450, "patience": 150}
ALONE = {"self_training": 0, "epochs": 400, "patience": 150}
BATCHES = ("sampled", "sampled_unit")  # recipes with mini-batches
# which of the two recipes take part, and what changes of those with mini-batches
RACES: dict[str, tuple[set[str], Mapping[str, Any]]] = {
    "race without": ({BASE}, ALONE),
    "race with": ({BASE, OWN}, ALONE),
    "race with, instead of averaged": ({OWN}, ALONE),
    "race with, and mini-batches in generations": ({OWN}, RECIPE),
}
# recipe, what changes of its training, and of the constants of gpnn.train.self_training
TRAININGS: dict[str, tuple[str, Mapping[str, Any], Mapping[str, float]]] = {
    "averaged": (BASE, {}, {}),
    "self_trained": (OWN, {}, {}),
    "two generations": (OWN, {"epochs": 300}, {}),
    "generations of 200 epochs": (OWN, {"self_training": 200, "epochs": 600, "patience": 200}, {}),
    "predicted labels weigh as the given ones": (OWN, {}, {"WEIGHT": 1.0}),
    "labels of a third of the nodes": (OWN, {}, {"SHARE": 0.3}),
    "spread, the same generations": ("spread", RECIPE, {}),
}
SAMPLED: dict[str, tuple[str, Mapping[str, Any], Mapping[str, float]]] = {
    "sampled": ("sampled", ALONE, {}),
    "sampled, three generations": ("sampled", RECIPE, {}),
    "sampled, two generations": ("sampled", {**RECIPE, "epochs": 300}, {}),
}
UNIT: dict[str, tuple[str, Mapping[str, Any], Mapping[str, float]]] = {
    "sampled_unit": ("sampled_unit", ALONE, {}),
    "sampled_unit, three generations": ("sampled_unit", RECIPE, {}),
}


def run(graph: str, split: int, setting: str) -> dict[str, Any]:
    """One training or race on a development split."""
    from experiments.harness.machine import describe_machine
    from gpnn.recipes import RECIPES

    torch.set_num_threads(1)
    began, data = time.process_time(), load(graph, split)
    weights: dict[str, float] = {}
    if setting in RACES:
        wanted, changes = RACES[setting]
        with patch.dict(RECIPES, {name: _changed(RECIPES[name], changes) for name in BATCHES}):
            probabilities, weights = _race(make_starts(data, split, names=_members(data, wanted)), data)
    else:
        name, changes, constants = (TRAININGS | SAMPLED | UNIT)[setting]
        probabilities = _train(make_starts(data, split, names=[name])[name](), changes, constants)
    val, held = (score(probabilities[mask], data.y[mask]) for mask in (data.val_mask, data.test_mask))
    seconds = round(time.process_time() - began, 1)
    line = {"graph": graph, "split": split, "setting": setting, "val": val, "held": held, "cpu_seconds": seconds}
    return line | {"weights": weights, "machine": describe_machine()}


def _changed(recipe: Any, changes: Mapping[str, Any]) -> Any:
    """A named recipe with other settings of its training."""
    return replace(recipe, train=replace(recipe.train, **changes))


def _members(data: Any, wanted: set[str]) -> list[str]:
    """The recipes that suit a graph, of the two that are compared those that are wanted."""
    from gpnn.data.splits import GraphFacts
    from gpnn.race import choose_members
    from gpnn.recipes import RECIPES

    members = {*choose_members(GraphFacts.of(data))} - {BASE, OWN} | wanted
    return [name for name in RECIPES if name in members]


def _train(trial: Any, changes: Mapping[str, Any], constants: Mapping[str, float]) -> Tensor:
    """The probabilities of one training, `[N, C]`."""
    from gpnn.race.start import fit_trial

    with _patched(constants):
        result = fit_trial(trial.again(replace(trial.recipe, **changes), trial.seed), None)
    assert result.logits is not None
    return result.logits.float().softmax(1)


def _race(starts: Mapping[str, Any], data: Any) -> tuple[Tensor, dict[str, float]]:
    """The probabilities of the blend of a race, `[N, C]`, and the weights of its recipes."""
    from gpnn.race import Finals, run_race

    with tempfile.TemporaryDirectory() as scratch:
        record = run_race(starts, Path(scratch), on_record=lambda record: None)
        finals = Finals(starts, Path(scratch), record)
        record = finals.blend(data, on_record=lambda record: None)
        results = [(weight, finals.train(name)[1]) for name, weight in finals.members.items()]
    parts = [result.prediction(weight) for weight, result in results]
    task = parts[0].task.blended([each.task for each in parts[1:]])
    found = task.combine(parts).float().softmax(1)
    return found, {} if record.blend is None else {name: round(w, 3) for name, w in record.blend.weights.items()}


@contextmanager
def _patched(constants: Mapping[str, float]) -> Iterator[None]:
    from gpnn.train import self_training

    before = {name: getattr(self_training, name) for name in constants}
    try:
        vars(self_training).update(constants)
        yield
    finally:
        vars(self_training).update(before)


def table(lines: list[dict[str, Any]]) -> str:
    """By graph: accuracies and log loss, and what is gained over the first setting of its kind."""
    text = []
    for graph in sorted({each["graph"] for each in lines}):
        head = ["setting", "splits", "validation", "held out", "log loss", "points", "CPU s"]
        text += [f"## {graph}", "", row(head), row(["---"] * len(head))]
        for names in (TRAININGS, SAMPLED, UNIT, RACES):
            first = _by_split(lines, graph, next(iter(names)))
            for name in names:
                own = _by_split(lines, graph, name)
                if own:
                    text.append(_row(name, own, first))
        text.append("")
    return "\n".join(text)


def _by_split(lines: list[dict[str, Any]], graph: str, setting: str) -> dict[int, dict[str, Any]]:
    return {each["split"]: each for each in lines if (each["graph"], each["setting"]) == (graph, setting)}


def _row(name: str, own: dict[int, dict[str, Any]], first: dict[int, dict[str, Any]]) -> str:
    gains = [100 * (own[split]["held"][0] - first[split]["held"][0]) for split in own if split in first]
    error = f" ± {stdev(gains) / len(gains) ** 0.5:.2f}" if len(gains) > 1 else ""
    gain = "–" if own is first or own == first or not gains else f"{fmean(gains):+.2f}{error}"
    val, held, loss = (
        fmean(each[part][place] for each in own.values()) for part, place in (("val", 0), ("held", 0), ("held", 1))
    )
    seconds = fmean(each["cpu_seconds"] for each in own.values())
    return row([name, str(len(own)), f"{100 * val:.2f}", f"{100 * held:.2f}", f"{loss:.3f}", gain, f"{seconds:.0f}"])


def write_page() -> None:
    """The page of all finished lines."""
    lines = read_lines(RESULTS)
    about = "\n\n".join((__doc__ or "").split("\n\n")[2:]).replace("\n", " ").strip()
    paired = (
        "Accuracies are in percent; *points*: of held-out accuracy more than the first row of its kind; mean "
        "and standard error over the same splits. Log losses are before calibration."
    )
    title = "What a model gains that learns what it predicts itself"
    write_lines_page(RESULTS, title, [about, paired, table(lines)], lines, f"{len(lines)} lines.", f"`{COMMAND}`")


def main() -> None:
    """Run what is not done, a line at a time, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--graphs", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--first", type=int, default=10, help="the first split")
    parser.add_argument("--settings", nargs="+", default=[*RACES, *TRAININGS, *SAMPLED, *UNIT])
    given = parser.parse_args()
    done = {(each["graph"], each["split"], each["setting"]) for each in read_lines(RESULTS)}
    splits = range(given.first, given.first + given.splits)
    todo = [(graph, split, name) for split in splits for name in given.settings for graph in given.graphs]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run, *each) for each in todo if each not in done]
        for future in as_completed(waiting):
            with RESULTS.open("a") as file:
                file.write(json.dumps(future.result(), ensure_ascii=False) + "\n")
            write_page()


if __name__ == "__main__":
    main()
