"""What a load of other processes costs a training, in shares of the cores, by how threads of OpenMP wait.

    python -m benchmarks.busy [--load 8] [--repeat 3] [WORDS ...]

Each row is the epochs of `gpnn train WORDS` by themselves and beside `--load` processes that never rest. The machine
need not be quiet: beside each training one more process never rests, and the CPU seconds that it gets meanwhile, the
share-seconds, are the share of one thread. A training whose share-seconds do not grow with the load is slowed down by
its share alone. "active" is how threads wait where nothing else is said: in a loop.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

WORDS = ["data.name=planted", "data.num_nodes=10000", "data.num_features=100", "recipe=spread", "train.epochs=10"]
POLICIES = ("passive", "active")


def main() -> None:
    """Read the arguments, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", default=WORDS)
    parser.add_argument("--load", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in the process that trains
    given = parser.parse_args()
    if given.here:
        print(json.dumps(train(given.words, given.repeat)))
        return
    print("| threads wait | others added | seconds | CPU seconds | share-seconds |\n|---|---|---|---|---|")
    for policy in POLICIES:
        for load in (0, given.load):
            found = " | ".join(f"{value:.2f}" for value in measure(given, policy, load))
            print(f"| {policy} | {load} | {found} |", flush=True)


def measure(given: argparse.Namespace, policy: str, load: int) -> list[float]:
    """Seconds, CPU seconds and share-seconds of a training's epochs, the median of each."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    environment["OMP_WAIT_POLICY"] = policy
    command = [sys.executable, "-m", "benchmarks.busy", *given.words, "--here", "--repeat", str(given.repeat)]
    with busy(load):
        shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [statistics.median(each) for each in zip(*json.loads(shown.stdout.splitlines()[-1]))]


def train(words: list[str], repeat: int) -> list[tuple[float, float, float]]:
    """Seconds, CPU seconds and share-seconds of the epochs of each training after the first."""
    from gpnn.build import build, create_run, load_config, train_run

    built, context, clocks = build(load_config(overrides=words)), get_context("spawn"), []
    used = context.Value("d", 0.0, lock=False)
    probe = context.Process(target=_count, args=(used,), daemon=True)
    probe.start()
    try:
        while not used.value:
            time.sleep(0.01)
        for _ in range(repeat + 1):
            clocks.append(_Clock(used))
            with tempfile.TemporaryDirectory() as folder:
                train_run(create_run(built, Path(folder) / "run"), built, callbacks=clocks[-1:], report=False)
    finally:
        probe.kill()
    return [clock.elapsed for clock in clocks[1:]]


class _Clock:
    """A callback that reads the three clocks before the first epoch and after each."""

    def __init__(self, used: Any) -> None:
        self.used, self.elapsed = used, (0.0, 0.0, 0.0)

    def start(self, history: Any) -> None:
        self.begun = self._read()

    def epoch(self, record: Any) -> None:
        self.elapsed = tuple(now - then for now, then in zip(self._read(), self.begun))  # type: ignore[assignment]

    def _read(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), self.used.value


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


def _count(used: Any) -> None:
    while True:
        used.value = time.process_time()


if __name__ == "__main__":
    main()
