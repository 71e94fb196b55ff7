"""Files are whole or not there; what a killed process leaves is removed by the next, what a living one makes is not."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from gpnn.storage.atomic import remove_abandoned, replace_file, staging_folder, write_json, write_text
from gpnn.storage.tensors import write_tensors


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail(partial):
        partial.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_file(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_holds_no_number_that_is_not_finite(tmp_path):
    write_json(tmp_path / "x.json", {"loss": float("nan"), "rest": [float("inf"), 1.5], "deep": {"a": float("-inf")}})
    assert json.loads((tmp_path / "x.json").read_text()) == {"loss": None, "rest": [None, 1.5], "deep": {"a": None}}


def test_tensors_give_the_same_bytes_with_ordinary_permissions(tmp_path):
    for name in ("a", "b"):
        write_tensors(tmp_path / name, {"w": torch.arange(3.0), "v": torch.ones(2)}, {"x": 1, "y": [2]})
    write_text(tmp_path / "c", "")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "c").stat().st_mode


def test_a_full_disk_is_an_ordinary_error_and_leaves_the_old_file(tmp_path, monkeypatch):
    write_tensors(tmp_path / "a", {"w": torch.zeros(1)}, {})
    before = (tmp_path / "a").read_bytes()

    def full(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space left on device"):
        write_tensors(tmp_path / "a", {"w": torch.ones(1)}, {})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", before)]


def test_a_full_disk_names_the_file_whoever_finds_it(tmp_path):
    """pyarrow, and Python where it writes or syncs, name none."""

    def full(partial):
        partial.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{tmp_path / 'table'}'")):
        replace_file(tmp_path / "table", full)
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys
from pathlib import Path
from gpnn.storage.atomic import staging_folder
with staging_folder(Path(sys.argv[1])) as folder:
    (folder / ".tmpAbC").write_text("half")
    print(folder.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path: Path):
    """A process that is in the midst of making `tmp_path / "model"`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "model")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(".model.")
    yield process
    process.kill()
    process.communicate()


def test_a_workplace_is_new_and_gone_afterwards(tmp_path: Path) -> None:
    with staging_folder(tmp_path / "a") as one, staging_folder(tmp_path / "a") as other:
        assert one != other
        assert one.parent == other.parent == tmp_path
        remove_abandoned(tmp_path)
        assert one.is_dir()
        assert other.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_only_what_a_killed_process_left_is_removed(tmp_path: Path, writer: subprocess.Popen) -> None:
    write_text(tmp_path / "other", "")
    (left,) = tmp_path.glob(".model.*.partial")
    assert (left / ".tmpAbC").read_text() == "half"
    writer.kill()
    writer.wait()
    assert left.is_dir()
    write_text(tmp_path / "other", "")  # any write in the folder
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    outside, parent = tmp_path / "outside", tmp_path / "parent"
    for folder in (outside, parent / ".x.partial", parent / ".x.12.partial", parent / "x.0123456789abcdef.partial"):
        folder.mkdir(parents=True)
        (folder / "precious").touch()
    (parent / ".link.0123456789abcdef.partial").symlink_to(outside)
    (parent / ".file.0123456789abcdef.partial").touch()
    before = sorted(tmp_path.rglob("*"))
    remove_abandoned(parent)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        with staging_folder(tmp_path / "model"):
            raise OSError(28, "No space left on device", str(path))

    with pytest.raises(OSError, match=r"No space") as raised:
        fail(tmp_path / ".model.0123456789abcdef.partial" / "partial")
    assert raised.value.filename == str(tmp_path / "model")
    with pytest.raises(OSError, match=r"No space") as raised:
        fail(tmp_path / "edges.csv")
    assert raised.value.filename == str(tmp_path / "edges.csv")


def test_a_folder_that_cannot_be_listed_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    write_text(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"
