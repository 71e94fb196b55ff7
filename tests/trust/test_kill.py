"""SIGKILL at any instant: what was written is whole, and going on gives the bits of a run that nobody disturbed."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gpnn.run.folder import lock_run
from tests.trust.consistent import check_run, check_same
from tests.trust.nursery import after, context, count_acts, kill_when, list_acts, run, start

GRAPH = ["planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
MODEL = ["model.hidden_channels=8", "model.dropout=0.3", "partition.k=3", "train.epochs=24", "train.patience=0"]
TRAIN = [
    "train",
    *GRAPH,
    *MODEL,
    "train.checkpoint_every=6",
    "train.passes=2",
    "--quiet",
    "--no-report",
    "--out",
    "run",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed; a child compiles what the cache lacks before anything is timed."""
    folder = tmp_path_factory.mktemp("whole") / "work"
    folder.mkdir()
    run(TRAIN, folder)
    return folder / "run"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def train_or_resume(folder: Path) -> list[str]:
    """The command that a user gives after a kill: before there is a run folder, the same again."""
    return ["train", "--quiet", "--no-report", "--resume", "run"] if (folder / "run").exists() else TRAIN


def history_of(folder: Path, lines: int) -> Callable[[], bool]:
    """The moment in which the run's history has so many lines."""
    history = folder / "run" / "history.jsonl"
    return lambda: history.exists() and history.read_bytes().count(b"\n") >= lines


def finish(folder: Path, whole: Path) -> None:
    run(train_or_resume(folder), folder)
    check_run(folder / "run")
    check_same(whole, folder / "run")


@pytest.mark.thorough
@pytest.mark.parametrize("lines", [3, 13, 24], ids=lambda lines: f"epoch {lines}")
def test_killed_in_an_epoch(folder: Path, whole: Path, lines: int) -> None:
    """Epoch 3 lies before the first checkpoint, so that the run starts over; 24 is the last."""
    process = start(TRAIN, folder)
    kill_when(process, history_of(folder, lines), lambda: check_run(folder / "run"))
    finish(folder, whole)


def test_killed_when_all_was_written(folder: Path, whole: Path) -> None:
    """The folder that the last file was made in is still there: resuming a finished run removes it."""
    shutil.copytree(whole, folder / "run")
    (folder / "run" / ".metrics.json.0123456789abcdef.partial").mkdir()
    finish(folder, whole)


@pytest.mark.thorough
def test_killed_behind_the_last_checkpoint(tmp_path: Path, whole: Path) -> None:
    """The checkpoint of the last epoch has its name, the folder it was made in is still there, and no other follows."""
    for name in ("acts", "killed"):
        (tmp_path / name / "work").mkdir(parents=True)
    acts = list_acts(TRAIN, tmp_path / "acts" / "work")
    last = max(number for number, act in enumerate(acts, 1) if act.startswith("os.rmdir run/checkpoint/"))
    folder = tmp_path / "killed" / "work"
    start(TRAIN, folder, die_at=last).join()
    assert list((folder / "run" / "checkpoint").glob(".training.safetensors.*.partial"))
    finish(folder, whole)


@pytest.mark.thorough
@pytest.mark.parametrize("after_end", ["model_card.md", "report.html"])
def test_killed_between_the_metrics_and_the_page(tmp_path: Path, whole: Path, after_end: str) -> None:
    """The run is finished and lacks what is written last: resuming writes it."""
    for name in ("acts", "killed"):
        (tmp_path / name / "work").mkdir(parents=True)
    train = [word for word in TRAIN if word != "--no-report"]
    acts = list_acts(train, tmp_path / "acts" / "work")
    first = next(number for number, act in enumerate(acts, 1) if f"run/.{after_end}." in act)
    assert any("run/.metrics.json." in act for act in acts[:first])
    folder = tmp_path / "killed" / "work"
    start(train, folder, die_at=first).join()
    assert (folder / "run" / "metrics.json").exists()
    assert not (folder / "run" / after_end).exists()
    run(["train", "--quiet", "--resume", "run"], folder)
    check_same(whole, folder / "run")
    for name in ("model_card.md", "report.html"):
        page = (tmp_path / "acts" / "work" / "run" / name).read_text()
        assert len((folder / "run" / name).read_text()) == pytest.approx(len(page), rel=0.01)


def die_in_a_checkpoint(folder: str) -> None:
    """Save a checkpoint as several processes do, and die before the folder has its name."""
    from gpnn.distributed import checkpoint as sharded_checkpoint
    from tests.trust.run_readers import write_sharded_checkpoint

    sharded_checkpoint._publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    write_sharded_checkpoint(Path(folder))


@pytest.mark.thorough
def test_killed_in_a_checkpoint_of_several_processes(tmp_path: Path) -> None:
    """Whoever holds the run next removes what is left of it."""
    (tmp_path / "checkpoint").mkdir()
    process = context.Process(target=die_in_a_checkpoint, args=(str(tmp_path / "checkpoint"),))
    process.start()
    process.join()
    assert [path.name[:14] for path in (tmp_path / "checkpoint").iterdir()] == [".epoch-000001."]
    with lock_run(tmp_path):
        assert list((tmp_path / "checkpoint").iterdir()) == []


@pytest.mark.thorough
def test_killed_again_and_again(folder: Path, whole: Path) -> None:
    """Each life gets a few epochs further than the last checkpoint."""
    for epoch in (4, 13, 20):
        process = start(train_or_resume(folder), folder, die_after=epoch)
        process.join()
        assert process.exitcode == -9
        assert history_of(folder, epoch)()
        check_run(folder / "run")
    finish(folder, whole)


@pytest.mark.slow
def test_killed_at_twenty_random_instants(tmp_path: Path, whole: Path) -> None:
    """Instants from the start of the process to past its end; some lie before the first checkpoint, as checked."""
    random_, seconds, early = random.Random(0), _seconds(tmp_path), 0
    for number in range(20):
        folder = tmp_path / str(number) / "work"
        folder.mkdir(parents=True)
        while kill_when(
            start(train_or_resume(folder), folder),
            after(random_.uniform(0, 1.1 * seconds)),
            lambda folder=folder: check_run(folder / "run"),  # type: ignore[misc]
        ):
            early += not (folder / "run" / "checkpoint" / "training.safetensors").exists()
            if random_.random() < 0.7:  # else it is killed once more
                break
        finish(folder, whole)
    assert early, "no kill came before the first checkpoint"


def _seconds(tmp_path: Path) -> float:
    import time

    folder = tmp_path / "timed" / "work"
    folder.mkdir(parents=True)
    began = time.monotonic()
    run(TRAIN, folder)
    return time.monotonic() - began


def _die_in_acts(tmp_path: Path, whole: Path, acts: list[int]) -> None:
    for act in acts:
        folder = tmp_path / str(act) / "work"
        folder.mkdir(parents=True)
        process = start(TRAIN, folder, die_at=act)
        process.join()
        assert process.exitcode == -9
        check_run(folder / "run")
        finish(folder, whole)


@pytest.mark.thorough
def test_killed_in_an_act_on_a_file(tmp_path: Path, whole: Path) -> None:
    """Between any two of open, rename, chmod, …: here a few of them, drawn."""
    (tmp_path / "count" / "work").mkdir(parents=True)
    acts = count_acts(TRAIN, tmp_path / "count" / "work")
    assert acts > 50  # config, environment, four checkpoints, history, model, predictions, metrics
    _die_in_acts(tmp_path, whole, random.Random(1).sample(range(1, acts + 1), 3))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 5))
def test_killed_in_every_act_on_a_file(tmp_path: Path, whole: Path, first: int) -> None:
    """In shares that run beside each other: each from another first act on, every fourth."""
    (tmp_path / "count" / "work").mkdir(parents=True)
    acts = count_acts(TRAIN, tmp_path / "count" / "work")
    _die_in_acts(tmp_path, whole, list(range(first, acts + 1, 4)))
