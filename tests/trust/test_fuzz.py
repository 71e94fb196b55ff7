"""Every reader, given damaged and hostile files: the right answer or one clear sentence, and nothing else happens."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.trust.hostile import HOSTILE
from tests.trust.mutate import MUTATIONS, mutate
from tests.trust.readers import READERS

ROOT = Path(__file__).parents[2]


def run_fuzz(cases: int, *readers: str) -> dict[str, dict[str, Any]]:
    """What became of the cases of each reader, read in a process with bounded memory."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.trust.fuzz", "--cases", str(cases), *readers]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(readers or READERS), f"the process ended with {done.returncode}: {done.stderr[-3000:]}"
    return {tally["reader"]: tally for tally in map(json.loads, lines)}


def check(tally: dict[str, Any], cases: int) -> None:
    assert tally["failures"] == []
    assert tally["cases"] == tally["read"] + tally["refused"]
    assert tally["cases"] >= cases + len(HOSTILE)
    assert tally["refused"] > cases // 10, "the damage is too small to test anything"


@pytest.fixture(scope="module")
def tallies() -> dict[str, dict[str, Any]]:
    """All readers' cases, by two processes."""
    halves = list(READERS)[::2], list(READERS)[1::2]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda readers: run_fuzz(60, *readers), halves)
    return first | second


@pytest.mark.thorough
@pytest.mark.parametrize("reader", READERS)
def test_damaged_files_are_read_right_or_refused_in_a_sentence(tallies: dict[str, Any], reader: str) -> None:
    check(tallies[reader], 60)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("reader", READERS)
def test_ten_thousand_damaged_files(reader: str) -> None:
    check(run_fuzz(10_000, reader)[reader], 10_000)


def test_the_same_seed_does_the_same_damage() -> None:
    content = b"id,label\n0,a\n1,b\n"
    assert [mutate(seed, content) for seed in range(50)] == [mutate(seed, content) for seed in range(50)]
    assert len({mutate(seed, content) for seed in range(200)}) > 150


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_takes_any_content(mutation: Any) -> None:
    import random

    for content in (b"", b"7", b"\xff" * 9, b"1,2\n3,4\n"):
        for seed in range(20):
            assert isinstance(mutation(random.Random(seed), content, [b"other"]), bytes)


@pytest.mark.thorough
def test_a_reader_that_fails_is_found(tmp_path: Path) -> None:
    """The harness itself: an answer that is wrong, an unclear error, and an act outside the folder are failures."""
    script = """
import os, sys
from tests.trust import fuzz, readers
def read(folder):
    text = (folder / "a").read_bytes()
    if not text: raise KeyError("a")
    if text[:1] == b"\\x80": os.system("true")
    if text[:1] == b"[": return bytearray(1 << 34)
    if text[:1] == b"{": raise ValueError("no stop")
    if text[:1] == b"<":
        while True: pass
    return text
def sound(text): assert text[:2] != b"id"
readers.READERS.clear()
readers.READERS["bad"] = readers.Reader(lambda folder: (folder / "a").write_bytes(b"ok") and None, read, sound)
fuzz.SECONDS = 0.2
import signal; signal.signal(signal.SIGVTALRM, fuzz.too_long)
sys.argv = ["fuzz", "--cases", "0"]
fuzz.main()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    problems = " ".join(failure["problem"] for failure in json.loads(done.stdout)["failures"])
    for word in ("KeyError", "AssertionError", "MemoryError", "TimeoutError", "no full stop", "os.system"):
        assert word in problems
