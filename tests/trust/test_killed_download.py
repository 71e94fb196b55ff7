"""A download killed in its midst: the file appears whole or not at all, and the next try goes on from what came."""

from __future__ import annotations

import errno
import hashlib
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gpnn.data.files import download
from tests.trust.nursery import after, context, kill_when
from tests.trust.test_disk import MS_RDONLY, MS_REMOUNT, disk, fill, mount

__all__ = ["disk"]  # a fixture

CONTENT = bytes(range(256)) * 4096  # a megabyte
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CHUNK = 1 << 16


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT from where it is asked to, a chunk at a time."""

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        start = int(asked[len("bytes=") : -1]) if asked else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        try:
            for at in range(start, len(CONTENT), CHUNK):
                self.wfile.write(CONTENT[at : at + CHUNK])
                time.sleep(0.02)
        except ConnectionError:
            pass

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/file"
    server.shutdown()
    server.server_close()


def fetch(url: str, path: str) -> None:
    import os

    os.environ["no_proxy"] = "127.0.0.1"
    download(url, Path(path), SHA256)


def whole_or_absent(path: Path) -> None:
    if path.exists():
        assert path.read_bytes() == CONTENT


@pytest.mark.thorough
def test_killed_downloads_go_on(url: str, tmp_path: Path) -> None:
    path, part = tmp_path / "file", tmp_path / "file.part"
    kept = 0
    for share in (0.0, 0.2, 0.5, 0.9):
        process = context.Process(target=fetch, args=(url, str(path)))
        process.start()
        wanted = int(share * len(CONTENT))
        moment = lambda wanted=wanted: part.exists() and part.stat().st_size >= wanted  # noqa: E731
        kill_when(process, moment, lambda: whole_or_absent(path))
        assert path.exists() or part.stat().st_size >= kept
        kept = 0 if path.exists() else part.stat().st_size
    download(url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_killed_at_twenty_random_instants(url: str, tmp_path: Path) -> None:
    random_, kills = random.Random(0), 0
    for number in range(20):
        path = tmp_path / str(number) / "file"
        process = context.Process(target=fetch, args=(url, str(path)))
        process.start()
        kills += kill_when(process, after(random_.uniform(0, 0.6)), lambda path=path: whole_or_absent(path))
        download(url, path, SHA256)
        assert path.read_bytes() == CONTENT
        assert [each.name for each in path.parent.iterdir()] == ["file"]
    assert kills >= 10


def test_a_full_disk_keeps_what_came(url: str, disk: Path) -> None:
    """The error is the disk's, not the connection's; with room again the download goes on."""
    ballast = fill(disk, 300_000)
    with pytest.raises(OSError, match="No space left") as raised:
        download(url, disk / "file", SHA256)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(disk / "file.part"))
    assert 0 < (disk / "file.part").stat().st_size < len(CONTENT)
    ballast.unlink()
    assert download(url, disk / "file", SHA256).read_bytes() == CONTENT
    assert [each.name for each in disk.iterdir()] == ["file"]


def test_a_read_only_folder(url: str, disk: Path) -> None:
    mount(disk, "size=16m", MS_REMOUNT | MS_RDONLY)
    with pytest.raises(OSError, match="Read-only file system"):
        download(url, disk / "file", SHA256)
    assert not list(disk.iterdir())
