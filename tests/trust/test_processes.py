"""Kernels in forked processes and in several threads of one: the same answers, no waiting for threads that are gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

COMMON = """
import os, sys, threading
import torch
torch.set_num_threads(2)
from gpnn.kernels import Operator, aggregate
rows = torch.arange(60_000) % 9000
operator = Operator.from_edges(rows, (rows * 7 + 1) % 9000, None, (9000, 9000))
x = torch.randn(9000, 128, generator=torch.Generator().manual_seed(0))
expected = aggregate(operator, x)
"""
FORK = """
child = os.fork()
if not child:
    found = aggregate(operator, x)
    torch.set_num_threads(1)  # torch's own operations wait for OpenMP's threads, which a fork does not take along
    os._exit(0 if found.equal(expected) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), aggregate(operator, x).equal(expected))
"""
THREADS = """
results = [None] * 6
def work(number):
    for _ in range(5):
        results[number] = aggregate(operator, x).equal(expected)
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(all(results), torch.get_num_threads())
"""
SPAWN = """
from multiprocessing import get_context
if __name__ == "__main__":
    with get_context("fork").Pool(2) as pool:
        print(pool.map(float, aggregate(operator, x)[0, :2].tolist()) == expected[0, :2].tolist())
"""


def run(script: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", COMMON + script], env=environment, capture_output=True, text=True, timeout=3000
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.thorough
def test_a_forked_process_computes_the_same() -> None:
    assert run(FORK) == "0 True"


@pytest.mark.thorough
def test_threads_of_one_process_compute_the_same() -> None:
    assert run(THREADS) == "True 2"


@pytest.mark.thorough
def test_a_pool_of_forked_workers_answers() -> None:
    assert run(SPAWN) == "True"
