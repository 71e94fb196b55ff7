"""Whether an offset per class, fitted on the validation nodes, gains anything, on development splits.

    python -m benchmarks.class_offsets [FOLDER …] [--graphs cora citeseer --recipe sampled --first 16 --splits 16]
        [--device cpu] [--jobs 1]

Predictions are those of trainings of a recipe, or what `benchmarks.random_propagation --keep FOLDER` or
`benchmarks.blend_rules --keep FOLDER` kept: the mean of a split's seeds, or the whole blends of races. They are
calibrated on the validation nodes by a temperature, and then by a temperature and offsets, as `gpnn train` does with a
blend (docs/tasks.md). Each line of `results/class_offsets.jsonl` is one split: accuracy and log loss of the held-out
nodes both ways, and whether offsets were kept; held-out nodes are none of the public test set. Lines of `sampled` have
it in one generation of 400 epochs. `results/class_offsets.md` is the table of all of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from benchmarks import random_propagation
from benchmarks.blend_rules import score
from benchmarks.lines import read_lines, row, write_lines_page

RESULTS = Path(__file__).parent / "results" / "class_offsets.jsonl"
SEEDS, RACES = "`sampled`, two seeds", "blends of races"
COMMAND = "python -m benchmarks.class_offsets FOLDER"
LATER = "--graphs citeseer cora --recipe sampled --first 16 --jobs 4"
ON_GPU = "--graphs nell --recipe sparse --splits 4 --device cuda --jobs 2"
OTHERS = "--graphs chameleon_filtered blogcatalog facebook_pages --recipe columns --splits 4"


def find_outputs(folder: Path) -> Iterator[tuple[str, str, int, Tensor, Tensor, Tensor]]:
    """Graph, what predicts, split, probabilities and classes of validation and held-out nodes, and which validate."""
    for file in sorted(folder.glob("*_rule.pt")):
        graph, kept = file.name.removesuffix("_rule.pt"), torch.load(file).float()
        for line in read_lines(random_propagation.RESULTS):
            splits = line["splits"]
            if (line["graph"], line["setting"], len(splits)) != (graph, "rule", len(kept)):
                continue
            for split in dict.fromkeys(splits):
                data = random_propagation.load(graph, split)
                mean = kept[torch.tensor(splits) == split].mean(0)
                nodes = data.val_mask | data.test_mask
                yield graph, SEEDS, split, mean[nodes], data.y[nodes], data.val_mask[nodes]
    for file in sorted(folder.glob("*-*[0-9].pt")):
        graph, split = file.stem.split("-")
        kept = torch.load(file)
        val, held = kept["targets"]
        found = torch.cat(kept["outputs"]["trained again"]).float()
        yield graph, RACES, int(split), found, torch.cat([val, held]), torch.arange(len(found)) < len(val)


def compare(found: Tensor, target: Tensor, val: Tensor) -> dict[str, Any]:
    """Accuracy and log loss of the held-out nodes by a temperature, and by offsets, too.

    Args:
        found: probabilities, `[n, C]`.
        target: classes, `[n]`.
        val: which nodes validate, `[n]`.
    """
    from gpnn.train.task import Classification

    outputs, scores = found.clamp_min(1e-7).log(), {}
    for name, shares in (("temperature", False), ("offsets", True)):
        task = Classification(found.shape[1]).calibrate(outputs[val], target[val], shares=shares)
        scores[name] = score(task.predict(outputs)[~val], target[~val])
    return {**scores, "kept": bool(task.offsets)}


def table(lines: list[dict[str, Any]]) -> str:
    """Held-out accuracy and what offsets change, paired over splits."""
    head = ["graph", "what predicts", "splits", "accuracy, percent", "with offsets", "points", "log loss", "kept on"]
    text = [row(head), row(["---"] * len(head))]
    for graph, what in dict.fromkeys((each["graph"], each["what"]) for each in lines):
        own = [each for each in lines if (each["graph"], each["what"]) == (graph, what)]
        means = [f"{100 * fmean(each[name][0] for each in own):.2f}" for name in ("temperature", "offsets")]
        points = _change([100 * (each["offsets"][0] - each["temperature"][0]) for each in own], 2)
        loss = _change([each["offsets"][1] - each["temperature"][1] for each in own], 4)
        text.append(row([graph, what, str(len(own)), *means, points, loss, str(sum(each["kept"] for each in own))]))
    return "\n".join(text)


def _change(values: list[float], digits: int) -> str:
    error = f" ± {stdev(values) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):+.{digits}f}{error}"


def run(graph: str, recipe: str, split: int, device: str) -> dict[str, Any]:
    """One training of a recipe, and its line."""
    from gpnn.data.features import choose_scale, transform_data
    from gpnn.recipes import RECIPES
    from gpnn.train.fit import fit

    torch.set_num_threads(1)
    data, own = random_propagation.load(graph, split), RECIPES[recipe]
    scale = choose_scale(data.x) if own.scale_features == "auto" else own.scale_features
    given = transform_data(data, scale_features=scale, undirected=True)
    made = replace(own.pipeline, seed=split, device=device).assemble(given, own.train, keep_schedule=False)
    result = fit(made.model, made.data, made.plan, recipe=made.recipe, seed=split)
    assert result.logits is not None
    nodes = data.val_mask | data.test_mask
    found = result.logits.float().softmax(1).cpu()[nodes]
    return note(graph, f"`{recipe}`", split, found, data.y[nodes], data.val_mask[nodes])


def note(graph: str, what: str, split: int, *given: Tensor) -> dict[str, Any]:
    """The line of one split."""
    from experiments.harness.machine import describe_machine

    return {"graph": graph, "what": what, "split": split, **compare(*given), "machine": describe_machine()}


def write_page() -> None:
    """The page of all finished lines."""
    lines = read_lines(RESULTS)
    about = "\n\n".join((__doc__ or "").split("\n\n")[2:]).replace("\n", " ").strip()
    title, command = (
        "Offsets of classes, fitted on the validation nodes",
        f"`{COMMAND}`, then with `{LATER}`, `{ON_GPU}` and `{OTHERS}`",
    )
    write_lines_page(RESULTS, title, [about, table(lines)], lines, f"{len(lines)} splits.", command)


def main() -> None:
    """Add what the folders hold and what is to be trained, as far as it is not done, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--graphs", nargs="*", default=[])
    parser.add_argument("--recipe", default="sampled")
    parser.add_argument("--first", type=int, default=0, help="the first split")
    parser.add_argument("--splits", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    done = {(each["graph"], each["what"], each["split"]) for each in read_lines(RESULTS)}
    splits = range(given.first, given.first + given.splits)
    todo = [(graph, given.recipe, split) for split in splits for graph in given.graphs]
    todo = [(graph, recipe, split) for graph, recipe, split in todo if (graph, f"`{recipe}`", split) not in done]
    kept = (found for folder in given.folders for found in find_outputs(folder) if found[:3] not in done)
    with RESULTS.open("a") as file, ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run, *each, given.device) for each in todo]
        trained = (each.result() for each in as_completed(waiting))
        for line in chain((note(*found) for found in kept), trained):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
    write_page()


if __name__ == "__main__":
    main()
