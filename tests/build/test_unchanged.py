"""A run that was received builds its objects without making folders."""

import json

import pytest

from gpnn.build import load_config
from gpnn.build.unchanged import dataset_options, load_trained_config
from gpnn.config import Config
from gpnn.divide import method_options
from gpnn.nn import UPDATES
from gpnn.run.folder import RunFolder


def test_defaults_are_sound():
    assert load_config().data.name == "digits"


def test_names_options_and_settings_are_reported_together():
    words = ["data.name=planted", "data.num_nods=5", "partition.leftovers=x", "schedule.cut=often", "model.cell=rnn"]
    with pytest.raises(ValueError, match="is not a setting") as error:
        load_config(overrides=[*words, "train.clop=1"])
    assert str(error.value).splitlines() == [
        "`train.clop` is not a setting. Did you mean `train.clip`?",
        "`data.num_nods` is not a setting. Did you mean `data.num_nodes`?",
        "`partition.leftovers` is not a setting. Did you mean `partition.leftover`?",
        "`schedule.cut` must be an integer. Got 'often'.",
        f"`model.cell` must be one of {', '.join(UPDATES)}. Got 'rnn'.",
    ]


def test_many_problems_and_long_values_are_cut():
    with pytest.raises(ValueError, match="is not a setting") as error:
        load_config(overrides=[f"train.nothing{n}=1" for n in range(100)])
    *shown, last = str(error.value).splitlines()
    assert 5 < len(shown) < 50
    assert last == f"Further settings that must be put right: {100 - len(shown)}."
    with pytest.raises(ValueError, match=r"`schedule.name` must be one of .* Got 'x{300}x*….$"):
        load_config(overrides=[f"schedule.name={'x' * 5000}"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.name=coral", r"`data.name` must be a dataset \(.* Got 'coral' \(the nearest is cora\)."),
        ("partition.method=x", "`partition.method` must be one of flood_fill"),
        ("schedule.name=x", "`schedule.name` must be one of auto, synchronous"),
        ("schedule.normalization=x", "`schedule.normalization` must be one of phase"),
        ("model.dropout=1.5", "`model.dropout` must be at least 0 and below 1. Got 1.5."),
        ("model.readout=x", "`model.readout` must be one of last"),
        ("threads=0", "`threads` must be at least 1. Got 0."),
        ("memory=16gigs", "`memory` must be an amount such as 16GiB or 20GB, a number of GB, or auto. Got '16gigs'."),
        ("device_memory=0", "`device_memory` must be an amount such as 16GiB or 20GB, a number of GB, or auto. Got 0."),
        ("engine=x", "`engine` must be one of auto, fused"),
        ("model.aggregate=x", "`model.aggregate` must be one of"),
        ("model.cell_options.gate=1", "`model.cell_options` must be arguments of the cell 'linear'"),
    ],
)
def test_unknown_names_list_the_choices(setting, message):
    with pytest.raises(ValueError, match=message):
        load_config(overrides=[setting])


def test_features_that_propagate_leave_their_units_open():
    words = ["model.cell=linear", "model.predict=features"]
    assert load_config(overrides=words).model.standardize == "auto"
    with pytest.raises(ValueError, match=r"`model\.standardize` takes features that do not propagate themselves"):
        load_config(overrides=[*words, "model.standardize=true"])


def test_options_are_the_loaders_own():
    assert list(dataset_options("nell")) == ["rate"]
    assert "undirected" in dataset_options("any/folder")
    assert "leftover" in method_options("flood_fill")
    assert not {"graph", "k", "seed", "train_nodes"} & set(method_options("flood_fill"))


BASE = Config().to_toml()
DISK = BASE.replace('disk = ""', 'disk = "new/scratch"')


@pytest.mark.parametrize("file", ["config.toml", "race.json", "search.json"])
def test_a_disk_folder_that_does_not_exist_is_not_made(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    assert DISK != BASE
    files = {"config.toml": BASE, file: DISK if file == "config.toml" else json.dumps({"base": DISK})}
    run = RunFolder.create(tmp_path / "run", files)
    with pytest.raises(ValueError, match=r"`disk` of .*run' must be a folder that exists. Got 'new/scratch'."):
        load_trained_config(run)
    (tmp_path / "new" / "scratch").mkdir(parents=True)
    load_trained_config(run)


def test_an_engine_in_memory_needs_no_folder(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"config.toml": DISK.replace('engine = "auto"', 'engine = "streamed"')})
    assert load_trained_config(run).disk == "new/scratch"
