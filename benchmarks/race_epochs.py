"""How far the nominal seconds of an epoch, by which races are planned, are from those of a machine.

    python -m benchmarks.race_epochs [--graphs cora pubmed ...] [--device cpu] [--threads 1]

For each graph the recipes that would race on it: nominal seconds (`gpnn/race/budget.py`) and the median of ten epochs
after the first two; of `columns`, which does something else in each epoch, the mean of all. Each line of
`results/race_epochs.jsonl` is one recipe on one graph, with what its epoch does; `results/race_epochs.md` is the table,
with the seconds for one of each kind of work that come nearest to those measured (least squares of relative errors,
none below zero). `before` are the nominal seconds of the code at d044093a; those of `columns` were counted again when
the seconds of its settings had been fitted, and those of the GPU when they had been.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import numpy as np
import torch

from benchmarks.lines import read_lines, row, write_lines_page
from benchmarks.process import describe_gpu, describe_machine
from experiments.harness.kinds.baseline import load_data
from gpnn.data.features import transform_data
from gpnn.data.splits import GraphFacts
from gpnn.race.budget import NOMINAL, Work, choose_members, epoch_work, nominal_seconds
from gpnn.recipes import RECIPES
from gpnn.train.fit import fit
from gpnn.train.solvers import SOLVERS

RESULTS = Path(__file__).parent / "results" / "race_epochs.jsonl"
GRAPHS: dict[str, dict[str, Any]] = {
    "Cora": {"name": "cora"},
    "Pubmed": {"name": "pubmed"},
    "Chameleon, filtered": {"name": "chameleon_filtered", "split": 0},
    "People": {"name": "people", "seed": 100},
    "Facebook pages": {"name": "facebook_pages", "seed": 100},
    "Facebook pages, 60 % labelled": {"name": "facebook_pages", "split": "fractions", "seed": 100},
    "Amazon computers, 60 % labelled": {"name": "amazon_cs", "split": "fractions", "seed": 100},
    "Flickr, 60 % labelled": {"name": "flickr", "split": "fractions", "seed": 100},
    "BlogCatalog, 60 % labelled": {"name": "blogcatalog", "split": "fractions", "seed": 100},
    "Twitch": {"name": "twitch_de", "split": "fractions", "seed": 100},
    "planted": {"name": "planted", "num_nodes": 20000, "num_features": 500},
}
EPOCHS, UNTIMED = 12, 2


def measure(graph: str, device: str) -> Iterator[dict[str, Any]]:
    """A line for each recipe that would race on a graph."""
    given = load_data({"data": GRAPHS[graph]})
    for name in choose_members(GraphFacts.of(given)):
        recipe = RECIPES[name]
        data = transform_data(given, undirected=bool(recipe.undirected), scale_features=recipe.scale_features)
        solver = recipe.pipeline.model == "columns"
        train = recipe.train if solver else replace(recipe.train, epochs=EPOCHS, patience=0)
        made = replace(recipe.pipeline, device=device).assemble(data, train, keep_schedule=False)
        parts = made.model, made.data, made.plan, made.recipe
        seconds = [each["seconds"] for each in fit(*parts[:3], recipe=made.recipe, seed=0).history]
        whole = type(made.model) not in SOLVERS and not made.recipe.batch
        yield {
            "graph": graph,
            "recipe": name,
            "nominal": nominal_seconds(*parts),
            "seconds": fmean(seconds) if solver else median(seconds[UNTIMED:]),
            "work": epoch_work(*parts) if whole else None,
        }


def fit_speed(lines: Sequence[dict[str, Any]]) -> Work:
    """The seconds for one of each kind of work that come nearest to the measured ones."""
    from scipy.optimize import nnls

    known = [each for each in lines if each["work"]]
    seconds = np.array([each["seconds"] for each in known])
    return Work(*nnls(np.array([each["work"] for each in known]) / seconds[:, None], np.ones(len(known)))[0])


def write_page() -> None:
    """The tables of all lines, a part for each device."""
    lines = read_lines(RESULTS)
    parts = []
    for device in dict.fromkeys(each["device"] for each in lines):
        mine = [each for each in lines if each["device"] == device]
        recipes = dict.fromkeys(each["recipe"] for each in mine)
        ratios = {(each["graph"], each["recipe"]): each["nominal"] / each["seconds"] for each in mine}
        table = [row(["nominal over measured", *recipes]), "|" + "---|" * (len(recipes) + 1)]
        for graph in dict.fromkeys(each["graph"] for each in mine):
            cells = (f"{ratios[graph, name]:.2f}" if (graph, name) in ratios else "–" for name in recipes)
            table.append(row([graph, *cells]))
        quarters = quantiles(ratios.values(), n=4)
        least, most = min(ratios.values()), max(ratios.values())
        said = f"Median {quarters[1]:.2f}, quartiles {quarters[0]:.2f} and {quarters[2]:.2f}; "
        said += f"from {least:.2f} to {most:.2f}."
        fitted, nominal = fit_speed(mine), NOMINAL[device]
        speeds = [row(["seconds for one of", *Work._fields]), "|" + "---|" * (len(Work._fields) + 1)]
        for name, found in (("fitted", fitted), ("nominal", nominal)):
            speeds.append(row([name, *(f"{each:.2g}" for each in found)]))
        parts += [f"## {device}", "\n".join(table), said, "\n".join(speeds)]
    before = sorted(each["before"] / each["seconds"] for each in lines if "before" in each and each["work"])
    parts.append(
        f"Before, all work was multiplications by one speed: nominal seconds of {len(before)} networks over whole "
        f"graphs (`before`) were from {before[0]:.2f} to {before[-1]:.1f} times those of a core."
    )
    title = "Nominal seconds of an epoch, by which races are planned, beside those of a machine"
    count = f"{len(lines)} recipes on graphs."
    write_lines_page(RESULTS, title, parts, lines, count, "python -m benchmarks.race_epochs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of lines, instead of the results")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = describe_machine() + (f"; {describe_gpu()}" if options.device == "cuda" else "")
    with (options.out or RESULTS).open("a") as file:
        for graph in options.graphs:
            for line in measure(graph, options.device):
                line |= {"device": options.device, "threads": options.threads, "machine": machine}
                print(json.dumps(line), file=file, flush=True)
    if options.out is None:
        write_page()
