import errno
import json
import re

import pytest
import torch
from safetensors import SafetensorError

from gpnn.storage.atomic import replace_file, write_json, write_text
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
