"""What a load of other processes costs a training, in shares of the cores, by how threads of OpenMP wait.

    python -m benchmarks.busy [--load 8] [--repeat 8] [--wait passive,active] [WORDS ...]

Each row is the epochs of `gpnn train WORDS` by themselves and beside `--load` processes that never rest, in turn, the
median of each. The machine need not be quiet: beside each training one more process never rests, and the CPU seconds
that it gets meanwhile, the share-seconds, are the share of one thread. A training whose share-seconds and CPU seconds
do not grow with the load is slowed down by its share alone; the last row has the median growth over the pairs.
"active" is how threads wait where nothing else is said: in a loop.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

WORDS = ["data.name=planted", "data.num_nodes=10000", "data.num_features=100", "recipe=spread", "train.epochs=10"]
CLOCKS = ("seconds", "CPU seconds", "share-seconds")
SPAWN = get_context("spawn")


def main() -> None:
    """Read the arguments, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", default=WORDS)
    parser.add_argument("--load", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--wait", default="passive,active", help="how threads of OpenMP wait")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in the process that trains
    given = parser.parse_args()
    if given.here:
        print(json.dumps(train(given.words, given.load, given.repeat)))
        return
    print(f"| threads wait | others added | {' | '.join(CLOCKS)} | load |\n|---|---|---|---|---|---|")
    for policy in given.wait.split(","):
        alone, beside = zip(*measure(given, policy))
        for load, rows in ((0, alone), (given.load, beside)):
            print(f"| {policy} | {load} | {_medians(rows)} |", flush=True)
        growth = [[after / before for before, after in zip(*pair)] for pair in zip(alone, beside)]
        print(f"| {policy} | growth | {_medians(growth)} |", flush=True)


def _medians(rows: Sequence[Sequence[float]]) -> str:
    return " | ".join(f"{statistics.median(each):.2f}" for each in zip(*rows))


def measure(given: argparse.Namespace, policy: str) -> list[list[list[float]]]:
    """Pairs of trainings, alone and beside the load, of each the clocks of its epochs and the load average."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    environment["OMP_WAIT_POLICY"] = policy
    command = [sys.executable, "-m", "benchmarks.busy", *given.words, "--here"]
    command += ["--repeat", str(given.repeat), "--load", str(given.load)]
    shown = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(shown.stdout.splitlines()[-1])


def train(words: list[str], load: int, repeat: int) -> list[list[list[float]]]:
    """What :func:`measure` gives, of each pair after the first training, which compiles."""
    from gpnn.build import build, create_run, load_config, train_run

    built, used, pairs = build(load_config(overrides=words)), SPAWN.Value("d", 0.0, lock=False), []

    def clock(load: int) -> list[float]:
        with busy(load), tempfile.TemporaryDirectory() as folder:
            read = _Clock(used)
            train_run(create_run(built, Path(folder) / "run"), built, callbacks=[read], report=False)
        return [*read.elapsed, os.getloadavg()[0]]

    with restless(used):
        clock(0)
        for _ in range(repeat):
            pairs.append([clock(0), clock(load)])
    return pairs


class _Clock:
    """A callback that reads three clocks before the first epoch and after each, and ends when nobody waits for it."""

    def __init__(self, used: Any) -> None:
        self.used, self.elapsed, self.parent = used, (0.0, 0.0, 0.0), os.getppid()

    def start(self, history: Any) -> None:
        self.begun = self._read()

    def epoch(self, record: Any) -> None:
        self.elapsed = tuple(now - then for now, then in zip(self._read(), self.begun))  # type: ignore[assignment]
        if os.getppid() != self.parent:
            raise SystemExit("the benchmark was ended")

    def _read(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), self.used.value


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that never rest."""
    with ExitStack() as others:
        for _ in range(number):
            others.enter_context(restless(SPAWN.Value("d", 0.0, lock=False)))
        yield


@contextmanager
def restless(used: Any) -> Iterator[None]:
    """A process that never rests and counts its CPU seconds; it ends with the one that made it, however that ends."""
    process = SPAWN.Process(target=_count, args=(used, os.getpid()), daemon=True)
    process.start()
    try:
        while not used.value:
            time.sleep(0.01)
        yield
    finally:
        process.kill()
        process.join()


def _count(used: Any, parent: int) -> None:
    while os.getppid() == parent:
        for _ in range(100_000):
            pass
        used.value = time.process_time()


if __name__ == "__main__":
    main()
