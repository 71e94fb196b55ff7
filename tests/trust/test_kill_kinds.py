"""SIGKILL in conversions, races, learned partitions, held cuts, updates, explanations: again, the same bits."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.trust.kills import WORDS, check, finish, kill_at_random, page, undisturbed, work
from tests.trust.nursery import count_acts, start


@pytest.mark.thorough
@pytest.mark.parametrize("kind", WORDS)
def test_killed_in_an_act_on_a_file(tmp_path: Path, kind: str) -> None:
    """In two of them, drawn."""
    whole, trained = undisturbed(tmp_path, kind)
    acts = count_acts(WORDS[kind], work(tmp_path, "counted", trained))
    assert acts >= 2
    for act in random.Random(3).sample(range(1, acts + 1), 2):
        folder = work(tmp_path, act, trained)
        process = start(WORDS[kind], folder, die_at=act)
        process.join()
        assert process.exitcode == -9
        check(folder, whole)
        finish(folder, kind, whole)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", WORDS)
def test_killed_at_twenty_random_instants(tmp_path: Path, kind: str) -> None:
    """Instants of the processor from the start to past the end; what stands there is read all the while."""
    counts = kill_at_random(tmp_path, kind, 20)
    assert counts["kills"] == 20
    assert counts["after the end"] <= 20


def test_the_page_counts_kills() -> None:
    counts = {"kills": 18, "after the end": 2, "before the first file": 5, "machine": "here"}
    assert "| race | 18 | 5 | 2 | yes |\n" in page({"command": "x", "kinds": {"race": counts}})
