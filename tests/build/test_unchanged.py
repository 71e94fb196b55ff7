"""A run that was received builds its objects without making folders."""

import json

import pytest

from gpnn.build.unchanged import load_trained_config
from gpnn.config import Config
from gpnn.run.folder import RunFolder

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
