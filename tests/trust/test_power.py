"""The power fails at any instant: what is left is read as the old state or the new one, and going on gives the same."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import gpnn
from gpnn.build import begin_run, load_config, open_run, train_run
from gpnn.data.convert import convert
from gpnn.data.stored import check_stored, is_stored, open_stored
from gpnn.distributed import is_shard_folder, read_index, read_shard
from gpnn.run.checkpoint import Progress, copy_weights, load_checkpoint, save_checkpoint
from gpnn.run.folder import lock_run, remove_unfinished
from gpnn.train import RunFolder
from tests.trust.consistent import check_run, check_same
from tests.trust.power import END, power_failures
from tests.trust.run_readers import read_sharded_checkpoint, write_sharded_checkpoint

SETTINGS = ["data.name=planted", "data.num_nodes=60", "data.num_classes=3", "data.num_features=8", "device=cpu"]
SETTINGS += ["data.label_rate=0.3", "model.hidden_channels=4", "partition.k=3", "train.epochs=6", "train.patience=0"]
SETTINGS += ["train.checkpoint_every=2"]


def fail_everywhere(folder: Path, work: Callable[[], object], check: Callable[[Path, str], object]) -> int:
    """Check what is left in `folder` of every instant of `work`; how many different states there are."""
    with power_failures(folder) as disk:
        work()
    for number, (act, image) in enumerate(disk.images.values()):
        left = disk.write(image, folder.parent / "left" / str(number) / folder.name)
        try:
            check(left, act)
        except Exception as error:
            raise AssertionError(f"power failed before: {act}; left: {sorted(image)}") from error
        shutil.rmtree(left.parent)
    return len(disk.images)


def checkpoint_of(epoch: int) -> tuple[nn.Linear, torch.optim.Optimizer, Progress]:
    model = nn.Linear(3, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(epoch)
    optimizer = torch.optim.Adam(model.parameters())
    return (
        model,
        optimizer,
        Progress(epoch=epoch, best_epoch=1, history=[{"epoch": 1}], best_weights=copy_weights(model)),
    )


def test_a_checkpoint_is_the_old_or_the_new(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for epoch in (1, 2):
        save_checkpoint(folder / "training.safetensors", *checkpoint_of(epoch))
    epochs = []

    def check(left: Path, act: str) -> None:
        model, optimizer, _ = checkpoint_of(0)
        epochs.append(load_checkpoint(left / "training.safetensors", model, optimizer).epoch)
        assert epochs[-1] in (2, 3)
        assert float(model.bias.detach().mean()) == epochs[-1]
        assert act != END or epochs[-1] == 3

    count = fail_everywhere(folder, lambda: save_checkpoint(folder / "training.safetensors", *checkpoint_of(3)), check)
    assert count > 5
    assert set(epochs) == {2, 3}


def test_a_checkpoint_of_several_processes_is_the_old_or_the_new(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for epoch in (1, 2):
        write_sharded_checkpoint(folder, epoch)
    found = []

    def check(left: Path, act: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found.append(read_sharded_checkpoint(left)["epoch"])
        assert found[-1] in (2, 3)
        assert act != END or found[-1] == 3

    assert fail_everywhere(folder, lambda: write_sharded_checkpoint(folder, 3), check) > 5
    assert set(found) == {2, 3}


def test_shards_are_whole_or_absent(tmp_path: Path) -> None:
    from gpnn.build.shard_data import write_data

    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.3)
    part = gpnn.partition_graph(data, 4)
    folder = tmp_path / "work"
    folder.mkdir()

    def check(left: Path, act: str) -> None:
        if not is_shard_folder(left / "new" / "shards"):
            assert act != END
            return
        index = read_index(left / "new" / "shards")
        assert sum(read_shard(index, rank, 2)[0].num_own for rank in range(2)) == 60

    assert (
        fail_everywhere(folder, lambda: write_data(data, part, 2, folder / "new" / "shards", name="planted"), check) > 5
    )


@pytest.mark.thorough
def test_a_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()

    def train() -> None:
        run, built = begin_run(lambda: load_config(overrides=SETTINGS), folder / "runs" / "one")
        with lock_run(run.path):
            train_run(run, built, report=False)

    finished = []

    def check(left: Path, act: str) -> None:
        path = left / "runs" / "one"
        if not path.exists():
            assert act != END
            return
        run = RunFolder.open(path)
        finished.append(run.finished)
        if run.finished:
            check_run(path)
            remove_unfinished(path)
        else:
            assert act != END
            run, built = open_run(path)
            if len(finished) % 6:  # to its end now and then: it takes time
                return
            with lock_run(run.path):
                train_run(run, built, report=False)
        check_same(folder / "runs" / "one", path)

    assert fail_everywhere(folder, train, check) > 50


@pytest.mark.thorough
def test_a_conversion_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{n},{n * 7 % 20}\n" for n in range(20)))
    (tmp_path / "nodes.csv").write_text("id,label,size\n" + "".join(f"{n},{'ab'[n % 2]},{n}.5\n" for n in range(20)))
    folder = tmp_path / "work"
    folder.mkdir()

    def make(place: Path) -> None:
        convert(tmp_path / "edges.csv", tmp_path / "nodes.csv", place / "new" / "graph")

    def check(left: Path, act: str) -> None:
        graph = left / "new" / "graph"
        if is_stored(graph):
            assert set(check_stored(open_stored(graph)).values()) == {"ok"}
        else:
            assert act != END
            make(left)
        whole = {path.name: path.read_bytes() for path in (folder / "new" / "graph").iterdir()}
        found = {path.name: path.read_bytes() for path in graph.iterdir() if path.is_file()}
        assert found == whole

    assert fail_everywhere(folder, lambda: make(folder), check) > 20
