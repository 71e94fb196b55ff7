"""The record that several processes gather is the one that a process with the whole graph would make."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpnn.build import build, create_run, load_config, report_run, train_run
from gpnn.build.objects import OwnShard, build_shard
from gpnn.build.report import record_run
from gpnn.build.shard_data import read_own, shard_notes, write_data
from gpnn.build.unchanged import record as write_environment
from gpnn.build.unchanged import settings_of
from gpnn.distributed import ProcessGroup, read_index
from gpnn.report import SECTIONS, Record, write_report
from gpnn.storage.atomic import write_text
from gpnn.train import RunFolder
from gpnn.train.notes import Note

WORDS = ["data.name=planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=12", "data.label_rate=0.3"]
WORDS += ["device=cpu", "model.hidden_channels=8", "train.epochs=3", "partition.k=5", "schedule.intra=2"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Record:
    """A run in one process, and beside it the same graph as a folder of two shards."""
    folder = tmp_path_factory.mktemp("shared")
    built = build(load_config(overrides=WORDS))
    built.data.node_name = np.array([f"node {number}" for number in range(120)], dtype=object)
    built.data.notes = ["split drawn"]
    run = create_run(built, folder / "run")
    train_run(run, built, report=False)
    write_data(built.data, built.partition, 2, folder / "shards", name="planted")
    record = record_run(run, built)
    write_text(run.config, replace_data(run.config.read_text(), folder / "shards"))
    write_environment(run, settings=settings_of(load_config(run.config)))
    return replace(record, environment={**record.environment, "folder": str(folder)})


def replace_data(text: str, shards: Path) -> str:
    """The configuration of the same run from a folder of shards."""
    head, _, rest = text.partition("[data]")
    return f'{head}[data]\nname = "{shards}"\n\n[' + rest.split("\n[", 1)[1]


def gather(group: ProcessGroup, folder: Path) -> Record | None:
    run = RunFolder(folder / "run")
    config, index = load_config(run.config), read_index(folder / "shards")
    shard, data = read_own(index, group)
    built = build_shard(config, OwnShard(index, shard, data, group, torch.device("cpu")))
    built.model.load_state_dict(run.read_model()[0])
    return record_run(run, built)


@pytest.fixture(scope="module", params=[2])
def shared(request, processes, whole) -> Record:
    first, *others = processes(gather, Path(whole.environment["folder"]), size=request.param)
    assert others == [None] * (request.param - 1)
    assert len(first.shares) == request.param
    return first


def test_predictions_are_those_of_the_whole(shared, whole):
    assert torch.equal(shared.predictions.shown, whole.predictions.shown)
    assert list(shared.predictions.classes) == list(whole.predictions.classes) == ["test", "validation"]
    for split, counts in whole.predictions.classes.items():
        assert torch.equal(shared.predictions.classes[split], counts)
        torch.testing.assert_close(shared.predictions.bins[split], whole.predictions.bins[split], rtol=0, atol=1e-4)


def test_partition_and_schedule_are_those_of_the_whole(shared, whole):
    assert shared.quality.num_cut_nodes == whole.quality.num_cut_nodes
    assert sorted(shared.quality.halo) == sorted(whole.quality.halo)
    assert sorted(shared.quality.train_labels) == sorted(whole.quality.train_labels)
    assert sorted(shared.quotient.sizes) == sorted(whole.quotient.sizes)
    assert sorted(shared.quotient.between.ravel()) == sorted(whole.quotient.between.ravel())
    assert (shared.quotient.predicted.sum(0) == whole.quotient.predicted.sum(0)).all()
    assert shared.phases == whole.phases
    assert sum(share["nodes"] for share in shared.shares) == 120
    assert sum(share["subgraphs"] for share in shared.shares) == 5


def test_the_sample_is_that_of_the_whole(shared, whole):
    assert shared.sample.facts.names == whole.sample.facts.names
    assert shared.sample.num_nodes == 120
    torch.testing.assert_close(shared.sample.states, whole.sample.states, rtol=1e-4, atol=1e-5)
    for name in ("y", "splits"):
        assert torch.equal(getattr(shared.sample.facts, name), getattr(whole.sample.facts, name))


def test_notes_come_with_the_shards(shared, whole):
    """Nobody holds the graph: who cut it wrote down what there is to note."""
    assert shared.notes[0] == Note("split drawn")
    index = read_index(Path(whole.environment["folder"]) / "shards")
    facts = {**index.facts["graph"], "num_edge_types": 3}
    noted = shard_notes(replace(index, facts={**index.facts, "graph": facts}), "identity")
    assert [note.what[:12] for note in noted] == ["split drawn", "3 edge types"]
    assert shard_notes(replace(index, facts={}), "identity") == []


def test_the_page_has_every_section(shared, tmp_path):
    assert shared.name == "planted"
    absent = [name for name, make in SECTIONS.items() if make(shared) is None]
    assert absent == ["explanations", "numbers", "race"]  # of nodes that are shared, of classes, of a recipe by name
    write_report(shared, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "120 nodes that several processes share is drawn by its subgraphs" in page
    assert "What each holds" in page


def test_report_writes_the_page_of_shards_anew(whole, tmp_path):
    page = report_run(Path(whole.environment["folder"]) / "run", tmp_path / "again.html")
    assert "1 process trained together" in page.read_text()
