"""The default and its peers on graphs of kinds that the experiment `kinds` does not have, brought as CSV tables.

    python -m benchmarks.other_kinds [KIND …] [--seeds 0,1] [--methods race,gcn] [--out FILE]

A cell is a line of FILE (JSON), written when it is done, and cells that FILE has are not run again.
`python -m benchmarks.other_kinds --table` prints the table of `benchmarks/results/other_kinds.md`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.other_kinds_tables import KINDS, write_tables
from experiments.peers.peer import METHODS, run_peer
from gpnn.text import metric_words

RACE = "race"
RESULTS = Path(__file__).parent / "results" / "other_kinds.jsonl"
BEFORE = RESULTS.with_name("other_kinds_before.jsonl")
PEER = {"epochs": 150, "patience": 30}  # as in the experiment `kinds`


def run_cell(kind: str, seed: int, method: str, device: str = "cpu") -> dict[str, Any]:
    """One method on one graph: its metric on validation and test nodes; `device` is that of a peer's networks."""
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name) / kind, time.process_time()
        write_tables(KINDS[kind](np.random.default_rng([seed, 0])), folder, seed)
        found = _race(folder, seed) if method == RACE else _peer(folder, seed, method, device)
    return {"kind": kind, "seed": seed, "method": method, "cpu_seconds": time.process_time() - began, **found}


def _race(folder: Path, seed: int) -> dict[str, Any]:
    """`gpnn train FOLDER`, told nothing but a seed."""
    run = folder.parent / "run"
    command = [sys.executable, "-m", "gpnn", "train", str(folder), f"seed={seed}", "device=cpu", "--out", str(run)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    metrics = json.loads((run / "metrics.json").read_text())
    race = json.loads((run / "race.json").read_text())["record"]
    metric = metrics["metric"]
    last = {row["name"]: [row["epochs"], row["value"]] for row in race["rows"]}
    return {
        "metric": metric,
        "val": metrics[f"val_{metric}"],
        "test": metrics[f"test_{metric}"],
        "seconds": time.perf_counter() - began,
        "weights": race["blend"]["weights"],
        "rows": last,
    }


def _peer(folder: Path, seed: int, method: str, device: str) -> dict[str, Any]:
    import gpnn

    data = gpnn.load_dataset(str(folder))
    found = run_peer(method, data, seed, device=device, **({} if method == "boosted_trees" else PEER))
    metric = found["metric"]
    return {"metric": metric, "val": found[f"val_{metric}"], "test": found[f"test_{metric}"]}


def table(cells: list[dict[str, Any]], before: list[dict[str, Any]]) -> str:
    """A row per kind: the race, as it was before too, and the peer that validation prefers; test nodes, percent.

    Args:
        cells: of the race and of peers.
        before: of the race before what these graphs showed was mended.
    """
    lines = ["| kind | metric | splits | race before | race | best peer | ahead |", "|---|---|---|---|---|---|---|"]
    found = {(cell["kind"], cell["method"], cell["seed"]): cell for cell in cells}
    older = {(cell["kind"], cell["seed"]): cell["test"] for cell in before}
    for kind in KINDS:
        seeds = [
            seed for name, method, seed in found if (name, method) == (kind, RACE) and (kind, "mlp", seed) in found
        ]
        if not seeds:
            continue
        peers = [_preferred([found[kind, each, s] for each in METHODS if (kind, each, s) in found]) for s in seeds]
        race = np.array([found[kind, RACE, seed]["test"] for seed in seeds])
        gap = race - [peer["test"] for peer in peers]
        spread = f" ± {100 * gap.std(ddof=1):.1f}" if len(gap) > 1 else ""
        names = ", ".join(sorted({peer["method"].replace("_", " ") for peer in peers}))
        best = f"{100 * np.mean([peer['test'] for peer in peers]):.1f} ({names})"
        known = [older[kind, seed] for seed in seeds if (kind, seed) in older]
        was = f"{100 * np.mean(known):.1f}" if len(known) == len(seeds) else "–"
        row = [kind.replace("_", " "), metric_words(peers[0]["metric"]), str(len(seeds)), was]
        row += [f"{100 * race.mean():.1f}", best, f"{100 * gap.mean():+.1f}{spread}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _preferred(peers: list[dict[str, Any]]) -> dict[str, Any]:
    return max(peers, key=lambda cell: cell["val"])


def read_cells(file: Path) -> list[dict[str, Any]]:
    """The cells that are done."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main() -> None:
    """Read the arguments; run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--methods", default=",".join((RACE, *METHODS)))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--device", default="cpu", help="of the networks of peers")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(read_cells(given.out), read_cells(BEFORE)))
        return
    for seed in map(int, given.seeds.split(",")):
        for kind in given.kinds:
            for method in given.methods.split(","):
                done = {(cell["kind"], cell["seed"], cell["method"]) for cell in read_cells(given.out)}
                if (kind, seed, method) in done:
                    continue
                try:
                    cell = run_cell(kind, seed, method, given.device)
                except (RuntimeError, ValueError) as refusal:
                    print(kind, seed, method, refusal, file=sys.stderr)
                    continue
                with given.out.open("a") as out:
                    out.write(json.dumps(cell) + "\n")
                print({name: value for name, value in cell.items() if name != "rows"}, flush=True)


if __name__ == "__main__":
    main()
