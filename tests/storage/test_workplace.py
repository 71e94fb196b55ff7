"""What a killed process leaves behind is removed by the next; what a living one makes is not touched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpnn.storage.atomic import write_text
from gpnn.storage.workplace import remove_abandoned, workplace

HOLD = """
import sys
from pathlib import Path
from gpnn.storage.workplace import workplace
with workplace(Path(sys.argv[1])) as folder:
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
    with workplace(tmp_path / "a") as one, workplace(tmp_path / "a") as other:
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
        with workplace(tmp_path / "model"):
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
