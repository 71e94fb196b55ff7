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

RACE = "race"
RESULTS = Path(__file__).parent / "results" / "other_kinds.jsonl"
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


def table(cells: list[dict[str, Any]]) -> str:
    """A row per kind: the race, each peer, and how far the race is ahead of the peer that validation prefers."""
    lines = ["| kind | metric | splits | race | best peer | ahead |", "|---|---|---|---|---|---|"]
    for kind in KINDS:
        mine = {(cell["method"], cell["seed"]): cell for cell in cells if cell["kind"] == kind}
        seeds = [seed for method, seed in mine if method == RACE and ("mlp", seed) in mine]
        if not seeds:
            continue
        peers = [max((mine[m, s] for m in METHODS if (m, s) in mine), key=lambda cell: cell["val"]) for s in seeds]
        race = [mine[RACE, seed]["test"] for seed in seeds]
        gap = np.array(race) - [peer["test"] for peer in peers]
        spread = f" ± {100 * gap.std(ddof=1):.1f}" if len(gap) > 1 else ""
        names = ", ".join(sorted({peer["method"] for peer in peers}))
        best = f"{100 * np.mean([peer['test'] for peer in peers]):.1f} ({names})"
        row = [
            kind,
            peers[0]["metric"],
            len(seeds),
            f"{100 * np.mean(race):.1f}",
            best,
            f"{100 * gap.mean():+.1f}{spread}",
        ]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


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
        print(table(read_cells(given.out)))
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
