"""Files of others: what they hold, or one error that names the file; and how errors show values."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpnn.storage import read
from gpnn.storage.read import (
    check_expansion,
    check_size,
    memory_limit,
    read_json,
    read_text,
    read_toml,
    reason,
    shorten,
    undamaged,
)


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (read_text, b"a\xff", r"^a\.txt must be text in UTF-8\. Got invalid start byte at byte 1\.$"),
        (read_json, b"{", r"^a\.txt must be JSON\. Got a damaged text: .*\.$"),
        (read_json, b"[" * 100_000, r"^a\.txt must be JSON\. Got brackets nested too deep\.$"),
        (read_json, b"[1]", r"^a\.txt must be a JSON object\. Got \[1\]\.$"),
        (read_toml, b"x", r"a\.txt must be TOML\. .*\.$"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, reader: Callable[[Path], Any], content: bytes, message: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        reader(tmp_path / "a.txt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.json")  # opening it would wait for a writer
    with pytest.raises(ValueError, match=r"^metrics\.json must be a file\. Got a pipe, a device or a folder\.$"):
        read_json(tmp_path / "metrics.json")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "missing.json")


def test_a_disk_that_fails_is_no_damaged_file() -> None:
    with pytest.raises(OSError, match="Input/output error"), undamaged("x.npy", "be an array", (OSError,)):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    wrong = r"^x\.npy must be an array\. Got: bad magic\.$"
    with pytest.raises(ValueError, match=wrong), undamaged("x.npy", "be an array", (OSError,)):
        raise OSError("bad magic")


def test_a_small_file_may_not_unpack_to_much() -> None:
    check_expansion("graph.pt", 1 << 28, 10)
    check_expansion("graph.pt", 1 << 29, 1 << 20)
    with pytest.raises(ValueError, match=r"graph\.pt must unpack to at most 1,000 times its size\."):
        check_expansion("graph.pt", (1 << 28) + 1, 10)


def test_a_file_may_use_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    check_size("edges.npz", memory_limit())
    monkeypatch.setattr(read, "memory_limit", lambda: 2 << 30)
    with pytest.raises(ValueError, match=r"^edges\.npz must unpack to at most the 2\.0 GiB .* Got 3\.0 GiB\.$"):
        check_size("edges.npz", 3 << 30)


def test_the_reason_of_an_error_is_one_line_of_bounded_length() -> None:
    assert reason(ValueError("\nno column.\nsee line 3")) == "no column"
    assert len(reason(ValueError("x" * 1000))) == 200
    assert reason(ValueError(" ")) == "ValueError"
    assert reason(ValueError("...")) == "ValueError"


def test_an_integer_that_python_does_not_print() -> None:
    assert shorten(10**5000) == "an integer of thousands of digits"
