"""A full disk, a read-only folder, a file that may not grow: one sentence, and what was written before stays whole."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from gpnn import Partition
from gpnn.data.stored import check_stored, is_stored, open_stored
from gpnn.storage.tensors import read_tensors
from tests.trust.consistent import check_run, check_same
from tests.trust.nursery import context, kill_when, run, start
from tests.trust.test_kill_preparation import EXPERIMENT

GRAPH = ["planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
TRAIN = [
    "train",
    *GRAPH,
    "model.hidden_channels=8",
    "partition.k=3",
    "train.patience=0",
    "train.checkpoint_every=2",
    "--no-report",
]
MS_RDONLY, MS_REMOUNT = 1, 32
FULL, READ_ONLY = 1, 2  # exit codes: a failure, and a mistake in what was given


def mount(folder: Path, options: str, flags: int = 0) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options.encode()):
        pytest.skip(f"a small disk cannot be mounted here: {os.strerror(ctypes.get_errno())}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An empty disk of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, "size=16m")
    yield folder
    ctypes.CDLL(None).umount2(os.fsencode(folder), 2)


def fail(words: list[str], folder: Path, code: int) -> str:
    """The one sentence with which `gpnn WORDS` ends, and the exit code it must have."""
    process = start(words, folder)
    process.join()
    output = (folder.parent / "output.txt").read_text()
    assert process.exitcode == code, output
    assert "Traceback" not in output
    sentences = [line for line in output.splitlines() if line.startswith("gpnn: ")]
    assert len(sentences) == 1, output
    return sentences[0]


def fill(folder: Path, leave: int) -> Path:
    """Fill the disk but for so many bytes."""
    path = folder / "ballast"
    free = shutil.disk_usage(folder).free
    path.write_bytes(bytes(max(free - leave, 0)))
    return path


def keep_full(folder: Path, process: BaseProcess) -> Path:
    """Fill what is free, again and again, as a process writes and frees, until it ends."""
    path = folder / "ballast"
    while process.is_alive():
        with path.open("ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        time.sleep(0.01)
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [[], ["schedule.name=held_cut"], ["partition.method=learned"]])
def test_training_on_a_full_disk_keeps_its_last_checkpoint(disk: Path, settings: list[str]) -> None:
    """The disk fills while it trains; with room again it goes on to the end."""
    process = start([*TRAIN, *settings, "train.epochs=100000", "--quiet", "--out", "run"], disk)
    checkpoint = disk / "run" / "checkpoint" / "training.safetensors"
    while not checkpoint.exists():
        assert process.is_alive(), (disk.parent / "output.txt").read_text()
        time.sleep(0.01)
    ballast = keep_full(disk, process)
    output = (disk.parent / "output.txt").read_text()
    assert process.exitcode == 1, output
    assert re.fullmatch(r"gpnn: run/(history.jsonl|checkpoint/.*): no space left on device.\n", output), output
    epoch = read_tensors(checkpoint, "a checkpoint")[1]["epoch"]
    assert epoch >= 2
    assert not list((disk / "run").rglob(".*"))
    ballast.unlink()
    settings = (disk / "run" / "config.toml").read_text()
    (disk / "run" / "config.toml").write_text(settings.replace("epochs = 100000", f"epochs = {epoch + 3}"))
    run(["train", "--quiet", "--no-report", "--resume", "run"], disk)
    check_run(disk / "run")


def test_a_run_that_finds_no_room_leaves_nothing(disk: Path) -> None:
    fill(disk, 0)
    sentence = fail([*TRAIN, "train.epochs=2", "--quiet", "--out", "run"], disk, FULL)
    assert sentence == "gpnn: run: no space left on device."
    assert [path.name for path in disk.iterdir()] == ["ballast"]


@pytest.mark.thorough
@pytest.mark.parametrize("room", [0, 40_000, 120_000])
def test_a_conversion_goes_on_when_there_is_room_again(disk: Path, room: int) -> None:
    edges, nodes = disk.parent / "edges.csv", disk.parent / "nodes.csv"
    edges.write_text("source,target\n" + "".join(f"{n},{n * 7 % 4000}\n" for n in range(4000)))
    nodes.write_text("id,label,size\n" + "".join(f"{n},{'ab'[n % 2]},{n}.5\n" for n in range(4000)))
    ballast = fill(disk, room)
    words = ["data", "convert", str(edges), str(nodes), "graph", "--quiet"]
    assert "no space left on device." in fail(words, disk, FULL)
    assert not is_stored(disk / "graph")
    ballast.unlink()
    run(words, disk)
    assert set(check_stored(open_stored(disk / "graph")).values()) == {"ok"}
    assert not (disk / "graph" / "unfinished").exists()


@pytest.mark.thorough
def test_a_race_goes_on_when_there_is_room_again(disk: Path) -> None:
    words = ["train", *GRAPH, "recipe=auto", "train.epochs=8", "--quiet", "--no-report", "--out", "run"]
    process = start(words, disk)
    while not (disk / "run" / "race.json").exists():
        assert process.is_alive(), (disk.parent / "output.txt").read_text()
        time.sleep(0.01)
    ballast = keep_full(disk, process)
    output = (disk.parent / "output.txt").read_text()
    assert process.exitcode == 1, output
    assert re.fullmatch(r"gpnn: run/.*: no space left on device.\n", output), output
    ballast.unlink()
    run(["train", "--quiet", "--no-report", "--resume", "run"], disk)
    check_run(disk / "run")


def test_a_partition_that_finds_no_room_leaves_the_old_one(disk: Path) -> None:
    Partition([0, 1, 1], 2).save(disk / "labels.safetensors")
    fill(disk, 0)
    sentence = fail(["partition", *GRAPH, "-k", "4", "--out", "labels.safetensors"], disk, FULL)
    assert sentence == "gpnn: labels.safetensors: no space left on device."
    assert Partition.load(disk / "labels.safetensors").num_nodes == 3
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "labels.safetensors"]


def test_shards_that_find_no_room_leave_nothing(disk: Path) -> None:
    fill(disk, 8 << 10)  # for the first folders, not for a shard
    sentence = fail(["partition", *GRAPH, "-k", "4", "--shards", "2", "--out", "shards"], disk, FULL)
    assert sentence == "gpnn: shards: no space left on device."
    assert [path.name for path in disk.iterdir()] == ["ballast"]


@pytest.mark.thorough
def test_a_read_only_folder_keeps_its_last_checkpoint(disk: Path) -> None:
    process = start([*TRAIN, "train.epochs=100000", "--quiet", "--out", "run"], disk)
    checkpoint = disk / "run" / "checkpoint" / "training.safetensors"
    kill_when(process, checkpoint.exists, lambda: check_run(disk / "run"))
    mount(disk, "size=16m", MS_REMOUNT | MS_RDONLY)
    assert "read-only file system" in fail(["train", "--quiet", "--no-report", "--resume", "run"], disk, READ_ONLY)
    assert "read-only file system" in fail([*TRAIN, "--quiet", "--out", "other"], disk, READ_ONLY)
    assert "read-only file system" in fail(["partition", *GRAPH, "--out", "labels.safetensors"], disk, READ_ONLY)
    assert read_tensors(checkpoint, "a checkpoint")[1]["epoch"] >= 2


def save_together(folder: str, epoch: int) -> None:
    """Save the checkpoint of an epoch as several processes do; exit with the error's number where there is no room."""
    from tests.trust.run_readers import read_sharded_checkpoint, write_sharded_checkpoint

    if epoch == 1:
        write_sharded_checkpoint(Path(folder), epoch)
        return
    with pytest.raises(OSError, match=f"epoch-{epoch:06d}") as raised:
        write_sharded_checkpoint(Path(folder), epoch)
    assert read_sharded_checkpoint(Path(folder))["epoch"] == epoch - 1
    os._exit(raised.value.errno or 1)


@pytest.mark.thorough
def test_a_checkpoint_of_several_processes_that_finds_no_room(disk: Path) -> None:
    """The last one stays whole, and nothing is left of the new one."""
    codes = []
    for epoch in (1, 2):
        process = context.Process(target=save_together, args=(str(disk), epoch))
        process.start()
        process.join()
        codes.append(process.exitcode)
        fill(disk, 1 << 12)
    assert codes == [0, errno.ENOSPC]
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "epoch-000001"]


def map_too_much(folder: str) -> None:
    """Map more than the disk holds; exit with the error's number."""
    import torch

    from gpnn.storage.tensors import map_tensor

    with pytest.raises(OSError, match=folder) as raised:
        map_tensor(torch.ones(8 << 20), folder)
    os._exit(raised.value.errno or 1)


def test_a_mapped_tensor_that_finds_no_room(disk: Path) -> None:
    """Without room reserved the process would die of a signal."""
    process = context.Process(target=map_too_much, args=(str(disk),))
    process.start()
    process.join()
    assert process.exitcode == errno.ENOSPC
    assert list(disk.iterdir()) == []


WRITERS = {  # commands by the name of what each writes
    "predicted.parquet": ["predict", "run", "--out", "predicted.parquet"],
    "predicted.csv": ["predict", "run", "--out", "predicted.csv"],
    "updated.csv": ["predict", "run", "--update", "change", "--out", "updated.csv"],
    "why.html": ["explain", "run", "7", "--out", "why.html"],
    "model.pt2": ["export", "run", "model.pt2"],
    "page.html": ["report", "run", "--out", "page.html"],
    "both.html": ["report", "run", "run", "--out", "both.html"],
    "picture.svg": ["schedule", *GRAPH, "--draw", "picture.svg"],
    "labels.part.4": ["partition", *GRAPH, "-k", "4", "--out", "labels.part.4"],
    "shards": ["partition", *GRAPH, "-k", "4", "--shards", "2", "--out", "shards"],
    "out": ["experiment", "tiny.toml", "--out", "out"],
    "searched": [*TRAIN, "train.epochs=2", "--search", "2", "--quiet", "--out", "searched"],
}


@pytest.fixture
def prepared(disk: Path) -> Path:
    """A disk with a finished run, an experiment, and an old file in the place of every file to be written."""
    run([*TRAIN, "train.epochs=2", "--quiet", "--out", "run"], disk)
    (disk / "tiny.toml").write_text(EXPERIMENT)
    (disk / "change").mkdir()
    (disk / "change" / "edges.csv").write_text("source,target\n5,3\n")
    for name in WRITERS:
        if "." in name:
            (disk / name).write_text("old")
    return disk


def check_nothing_is_written(folder: Path, reason: str, code: int) -> None:
    """Every command names its file and this reason, and leaves the files that were there and no others."""
    before = _files(folder)
    for name, words in WRITERS.items():
        sentence = fail(words, folder, code)
        assert sentence.startswith(f"gpnn: {name}"), sentence
        assert sentence.endswith(f": {reason}."), sentence
        assert _files(folder) == before, name


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "ballast"}


@pytest.mark.thorough
def test_every_writer_on_a_full_disk(prepared: Path) -> None:
    fill(prepared, 0)
    check_nothing_is_written(prepared, "no space left on device", FULL)


@pytest.mark.thorough
def test_every_writer_on_a_read_only_disk(prepared: Path) -> None:
    mount(prepared, "size=16m", MS_REMOUNT | MS_RDONLY)
    check_nothing_is_written(prepared, "read-only file system", READ_ONLY)


def test_a_file_that_may_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no disk can be mounted: writes fail as on a full one, in the midst of a checkpoint."""
    from safetensors import SafetensorError

    path = tmp_path / "labels.safetensors"
    Partition([0, 1, 1], 2).save(path)

    def full(_: object, partial: Path, __: object) -> None:
        partial.write_bytes(b"half")
        partial.with_name(".tmpJ7x").write_bytes(b"half")  # safetensors itself writes to another name first
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space left") as raised:
        Partition([0, 1, 2], 3).save(path)
    assert raised.value.errno == errno.ENOSPC
    assert Partition.load(path).num_parts == 2
    assert [each.name for each in tmp_path.iterdir()] == ["labels.safetensors"]


@pytest.mark.slow
@pytest.mark.timeout(14400)
def test_a_large_run_under_a_cap_on_memory_on_a_disk_that_fills_beside_another(disk: Path, tmp_path: Path) -> None:
    """Two equal trainings at once, 6 GiB of addresses each; the disk of one has no room for its predictions."""
    nodes = int(os.environ.get("GPNN_NODES", "2000000"))
    mount(disk, f"size={max(nodes // 20, 600_000)}", MS_REMOUNT)
    words = ["train", "planted", f"data.num_nodes={nodes}", "data.num_features=16", "data.label_rate=0.01"]
    words += ["recipe=spread", "model.hidden_channels=16", "train.passes=1", "train.consistency=0"]
    words += ["train.epochs=2", "train.patience=0", "train.checkpoint_every=1", "--no-report"]
    crowded, whole = (capped([*words, "--out", str(place / "run")], nodes) for place in (disk, tmp_path))
    said, code = crowded.communicate()[0], crowded.returncode
    assert code == FULL, said
    assert re.search(r"^gpnn: .*predictions\.\w+: no space left on device\.$", said, re.MULTILINE), said
    assert whole.communicate() is not None
    assert whole.returncode == 0
    check_run(disk / "run")
    mount(disk, "size=2g", MS_REMOUNT)
    again = capped(["train", "--resume", str(disk / "run"), "--no-report"], nodes)
    said, code = again.communicate()[0], again.returncode
    assert code == 0, said
    check_same(disk / "run", tmp_path / "run")


def capped(words: list[str], nodes: int) -> subprocess.Popen[str]:
    """`gpnn WORDS` with 4 GiB of addresses, and a thousand bytes per node beyond."""
    most = (4 << 30) + 1000 * nodes
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (most, most))
    command = [sys.executable, "-m", "gpnn", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limit)
