"""Every call may fail, for want of a disk or of memory: what was there stays readable, and the same again succeeds."""

from __future__ import annotations

import gc
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import gpnn
from gpnn.build.shard_data import write_data
from gpnn.data.convert import convert
from gpnn.data.stored import check_stored, is_stored, open_stored
from gpnn.distributed import is_shard_folder, read_index, read_shard
from gpnn.run.checkpoint import load_checkpoint, save_checkpoint
from gpnn.run.folder import RunFolder
from tests.trust.faults import ERRORS, Injected, each_call
from tests.trust.test_power import checkpoint_of

Case = tuple[Callable[[Path], object], Callable[[Path], bool]]  # writes; whether it is there, and whole if it is


def save_third(folder: Path) -> None:
    save_checkpoint(folder / "training.safetensors", *checkpoint_of(3))


def third_is_there(folder: Path) -> bool:
    model, optimizer, _ = checkpoint_of(0)
    epoch = load_checkpoint(folder / "training.safetensors", model, optimizer).epoch
    assert epoch in (2, 3)
    assert float(model.bias.detach().mean()) == epoch
    return epoch == 3


def create_run(folder: Path) -> None:
    if not (folder / "runs" / "one").exists():
        run = RunFolder.create(folder / "runs" / "one", {"config.toml": "seed = 1\n", "environment.json": "{}\n"})
        run.append_history({"epoch": 1})
    RunFolder(folder / "runs" / "one").write_metrics({"epochs": 1})


def run_is_there(folder: Path) -> bool:
    path = folder / "runs" / "one"
    if not path.exists():
        return False
    run = RunFolder.open(path)
    assert {each.name for each in path.iterdir()} >= {"config.toml", "environment.json", "checkpoint"}
    if not run.finished:
        return False
    return run.read_metrics() == {"epochs": 1}


def write_shards(folder: Path) -> None:
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.3)
    write_data(data, gpnn.Partition([node % 4 for node in range(60)], 4), 2, folder / "shards", name="planted")


def shards_are_there(folder: Path) -> bool:
    if not is_shard_folder(folder / "shards"):
        return False
    index = read_index(folder / "shards")
    return sum(read_shard(index, rank, 2)[0].num_own for rank in range(2)) == 60


def convert_tables(folder: Path) -> None:
    convert(folder / "edges.csv", folder / "nodes.csv", folder / "graph")


def graph_is_there(folder: Path) -> bool:
    if not is_stored(folder / "graph"):
        return False
    return set(check_stored(open_stored(folder / "graph")).values()) == {"ok"}


CASES: dict[str, Case] = {
    "checkpoint": (save_third, third_is_there),
    "run folder": (create_run, run_is_there),
    "shards": (write_shards, shards_are_there),
    "converted graph": (convert_tables, graph_is_there),
}


def prepare(folder: Path) -> Path:
    """A folder with two checkpoints and two tables."""
    folder.mkdir(parents=True)
    for epoch in (1, 2):
        save_checkpoint(folder / "training.safetensors", *checkpoint_of(epoch))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{n},{n * 7 % 20}\n" for n in range(20)))
    (folder / "nodes.csv").write_text("id,label,size\n" + "".join(f"{n},{'ab'[n % 2]},{n}.5\n" for n in range(20)))
    return folder


def fail_in_calls(tmp_path: Path, name: str, kind: str, most: int, share: slice = slice(None)) -> None:
    """Fail at most so many calls, or this share of them."""
    work, is_there = CASES[name]
    whole = prepare(tmp_path / "whole")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of a file whose closing failed
        for number in each_call(lambda: work(whole), ERRORS[kind], most)[share]:
            folder = prepare(tmp_path / str(number))
            injected = Injected(ERRORS[kind], number)
            raised = injected.run(lambda folder=folder: work(folder))  # type: ignore[misc]
            try:
                assert raised is None or isinstance(raised, type(ERRORS[kind]())), raised
                done = is_there(folder)
                assert done or raised is not None, "an error was lost"
                if not done:
                    work(folder)
                assert is_there(folder)
            except Exception as error:
                raise AssertionError(f"call {number}, {injected.place}: {raised!r}") from error
            shutil.rmtree(folder)
        gc.collect()  # such files are closed here, where nobody minds
    assert is_there(whole)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.thorough
def test_a_checkpoint_whose_writing_fails(tmp_path: Path, kind: str) -> None:
    fail_in_calls(tmp_path, "checkpoint", kind, 1000)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("name", ["run folder", "shards", "converted graph"])
def test_a_writer_that_fails_in_any_call(tmp_path: Path, name: str, kind: str) -> None:
    fail_in_calls(tmp_path, name, kind, 30)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("name", ["run folder", "shards", "converted graph"])
@pytest.mark.parametrize("first", range(4))
def test_a_writer_that_fails_in_every_call(tmp_path: Path, name: str, kind: str, first: int) -> None:
    """In shares that run beside each other: each from another first call on, every fourth."""
    fail_in_calls(tmp_path, name, kind, 1_000_000, slice(first, None, 4))
