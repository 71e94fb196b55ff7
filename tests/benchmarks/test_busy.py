"""What never rests does not outlive the benchmark that made it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

HOLD = """
import multiprocessing, time
from benchmarks.busy import busy
with busy(2):
    print(*(each.pid for each in multiprocessing.active_children()), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_kill_leaves_nothing_that_spins():
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        others = [int(each) for each in held.stdout.readline().split()]
        held.kill()
    assert len(others) == 2
    while any(_runs(each) for each in others):
        time.sleep(0.05)


def _runs(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
