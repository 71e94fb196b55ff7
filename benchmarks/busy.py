"""What a load of other processes costs a training, by how threads of OpenMP wait.

    python -m benchmarks.busy [--load 8] [--repeat 3] [WORDS ...]

Each row is `gpnn train WORDS` in a process of its own: seconds of its epochs without and beside `--load` processes that
never rest. Its share of C cores beside L others is C / (L + C) of what it has alone, so that its ratio should be at
most (L + C) / C. "active" is how threads wait where nothing else is said: in a loop.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context

WORDS = ["planted", "data.num_nodes=30000", "data.num_features=200", "recipe=spread", "train.epochs=20"]
POLICIES = ("active", "passive")


def main() -> None:
    """Read the arguments, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", default=WORDS)
    parser.add_argument("--load", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"| threads wait | quiet, s | beside {given.load}, s | ratio | share allows |\n|---|---|---|---|---|")
    for policy in POLICIES:
        quiet = measure(given.words, policy, given.repeat)
        with busy(given.load):
            loaded = measure(given.words, policy, given.repeat)
        allowed = (given.load + cores) / cores
        print(f"| {policy} | {quiet:.2f} | {loaded:.2f} | {loaded / quiet:.1f} | {allowed:.1f} |", flush=True)


def measure(words: list[str], policy: str, repeat: int) -> float:
    """The median seconds of a training's epochs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    seconds = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "gpnn", "train", *words, "--out", f"{folder}/run", "--no-report", "--json"]
            environment["OMP_WAIT_POLICY"] = policy
            shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            seconds.append(json.loads(shown.stdout)["seconds"])
    return statistics.median(seconds)


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that never rest."""
    others = [get_context("spawn").Process(target=_spin, daemon=True) for _ in range(number)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
