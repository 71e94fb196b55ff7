"""Boosted trees of `columns` alone, one ensemble beside the average of several over rows weighted at random.

    python -m benchmarks.bagged_trees [--jobs 1] [--graphs 3]

Graphs are generated tables of people of another size than those of experiments/recipes/kinds.toml. A line of
`results/bagged_trees.jsonl` is one training, with its loss on validation and held-out nodes; finished lines are not run
again, and `results/bagged_trees.md` is the table of all of them.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from benchmarks.lines import read_lines, row, write_lines_page

RESULTS = Path(__file__).parent / "results" / "bagged_trees.jsonl"
KINDS: dict[str, dict[str, Any]] = {
    "homophilous": {},
    "many labels": {"label_rate": 0.6},
    "weak columns": {"column_signal": 0.3},
    "heterophilous": {"homophily": 0.1},
    "useless graph": {"homophily": 0.25},
    "two classes": {"num_classes": 2, "homophily": 0.6},
    "number": {"target": "number"},
    "number, many labels": {"target": "number", "label_rate": 0.6},
}
SIDES = ("one", "bagged")
MEASURES = ("val_loss", "test_loss", "test_score", "seconds")


def run(kind: str, graph: int, side: str) -> dict[str, Any]:
    """One training of trees over the columns of a graph."""
    import gpnn
    from experiments.harness.machine import describe_machine
    from gpnn.nn.column_model import ColumnModel
    from gpnn.train.column_settings import column_arguments

    torch.set_num_threads(1)
    data = gpnn.load_dataset("people", num_nodes=1600, seed=graph, **KINDS[kind])
    arguments = column_arguments(data, method="trees")
    if side == "one":
        arguments["bags"] = 1
    plan = gpnn.lower(data, gpnn.schedule.synchronous(data, rounds=3))
    began = time.process_time()
    model = ColumnModel(**arguments)
    found = gpnn.train.fit(model, data, plan, recipe=gpnn.train.Recipe(epochs=16, patience=0), seed=graph).metrics
    line = {"kind": kind, "graph": graph, "side": side, "bags": arguments["bags"], "machine": describe_machine()}
    for split in ("val", "test"):
        line[f"{split}_loss"] = 1 - found[f"{split}_r2"] if found["metric"] == "r2" else found[f"{split}_loss"]
    return line | {"test_score": 100 * found[f"test_{found['metric']}"], "seconds": time.process_time() - began}


def differences(lines: list[dict[str, Any]], kind: str | None, measure: str) -> list[float]:
    """What bagging changes, per graph of a kind, or of all kinds."""
    found = {
        (each["kind"], each["graph"], each["side"]): each[measure] for each in lines if kind in (None, each["kind"])
    }
    graphs = sorted({key[:2] for key in found})
    pairs = [[found.get((*graph, side)) for side in SIDES] for graph in graphs]
    return [several - one for one, several in pairs if one is not None and several is not None]


def _cells(lines: list[dict[str, Any]], kind: str | None) -> list[str]:
    cells = []
    for measure in MEASURES:
        found = differences(lines, kind, measure)
        spread = f" ± {stdev(found) / len(found) ** 0.5:.3f}" if len(found) > 1 else ""
        cells.append(f"{fmean(found):+.3f}{spread}" if found else "–")
    return cells


def write_page() -> None:
    lines = read_lines(RESULTS)
    header = [
        row(["", "bags", *(measure.replace("_", " ") for measure in MEASURES)]),
        row(["---"] * (2 + len(MEASURES))),
    ]
    table = []
    for kind in KINDS:
        bags = {each["bags"] for each in lines if each["kind"] == kind and each["side"] == "bagged"}
        table.append(row([kind, ", ".join(map(str, sorted(bags))), *_cells(lines, kind)]))
    table.append(row(["all", "", *_cells(lines, None)]))
    about = (
        "What the average of several boosted ensembles changes against one, mean and standard error over graphs: the "
        "loss on validation and on held-out nodes (log loss; of numbers 1 − R²), the score on the latter "
        "(accuracy, R², percent) and the CPU seconds of a training. Each ensemble ends at the iteration that "
        "validation prefers; `columns` chooses its kinds of columns on validation as it does in a race."
    )
    count = f"{len(lines)} trainings."
    command = "`python -m benchmarks.bagged_trees --jobs 4`"
    write_lines_page(
        RESULTS, "Boosted trees of `columns`, bagged", [about, "\n".join(header + table)], lines, count, command
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--graphs", type=int, default=3)
    given = parser.parse_args()
    done = {(each["kind"], each["graph"], each["side"]) for each in read_lines(RESULTS)}
    wanted = [(kind, graph, side) for graph in range(given.graphs) for kind in KINDS for side in SIDES]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for each in as_completed([pool.submit(run, *cell) for cell in wanted if cell not in done]):
            with RESULTS.open("a") as file:
                file.write(json.dumps(each.result()) + "\n")
    write_page()


if __name__ == "__main__":
    main()
