"""SIGKILL at any instant of a race: resuming comes to the bits of one that nobody disturbed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gpnn.build.race import read_race
from tests.trust.consistent import check_run, check_same, timeless
from tests.trust.nursery import count_acts, kill_when, run, start

GRAPH = ["planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
RACE = ["train", *GRAPH, "recipe=auto", "train.epochs=8", "train.patience=0", "train.checkpoint_every=2", "--quiet"]
RACE += ["--no-report", "--out", "run"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "work"
    folder.mkdir()
    run(RACE, folder)
    return folder / "run"


def race_or_resume(folder: Path) -> list[str]:
    return ["train", "--quiet", "--no-report", "--resume", "run"] if (folder / "run").exists() else RACE


def finish(folder: Path, whole: Path) -> None:
    run(race_or_resume(folder), folder)
    check_run(folder / "run")
    check_same(whole, folder / "run")
    assert not (folder / "run" / "race").exists()
    one, other = (read_race(path / "race.json") for path in (whole, folder / "run"))
    assert one.winner == other.winner
    assert [timeless(row) for row in one.record.rows] == [timeless(row) for row in other.record.rows]
    assert one.record.blend == other.record.blend


@pytest.mark.thorough
def test_killed_in_acts_on_files_of_a_race(tmp_path: Path, whole: Path) -> None:
    """Between any two of open, rename, …: drawn from all, and from the last, where the winner becomes the run's."""
    (tmp_path / "count" / "work").mkdir(parents=True)
    acts, drawn = count_acts(RACE, tmp_path / "count" / "work"), random.Random(2)
    for act in [*drawn.sample(range(1, acts + 1), 2), *drawn.sample(range(acts - 60, acts - 20), 2)]:
        folder = tmp_path / str(act) / "work"
        folder.mkdir(parents=True)
        process = start(RACE, folder, die_at=act)
        process.join()
        assert process.exitcode == -9
        check_run(folder / "run")
        finish(folder, whole)


@pytest.mark.thorough
def test_killed_again_and_again_in_a_race(tmp_path: Path, whole: Path) -> None:
    """Each life is killed after a few more rows of the record."""
    folder, kills = tmp_path / "work", 0
    folder.mkdir()
    noted = folder / "run" / "race.json"
    for rows in (1, 4, 7):
        reached = lambda rows=rows: noted.exists() and noted.read_text().count('"rung"') >= rows  # noqa: E731
        kills += kill_when(start(race_or_resume(folder), folder), reached, lambda: check_run(folder / "run"))
    assert kills
    finish(folder, whole)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(1, 33))
def test_killed_in_every_act_on_a_file_of_a_race(tmp_path: Path, whole: Path, first: int) -> None:
    """A thousand acts, in shares that run beside each other: each from another first one on, every 32nd."""
    (tmp_path / "count" / "work").mkdir(parents=True)
    for act in range(first, count_acts(RACE, tmp_path / "count" / "work") + 1, 32):
        folder = tmp_path / str(act) / "work"
        folder.mkdir(parents=True)
        start(RACE, folder, die_at=act).join()
        finish(folder, whole)
