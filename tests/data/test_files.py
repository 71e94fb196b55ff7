"""Where files are kept and whether they are whole; downloads from a server that cuts connections and lies."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gpnn.data import files as module
from gpnn.data.files import (
    DERIVED,
    HOMES,
    PREFIXES,
    SHA256,
    DataFile,
    data_folder,
    dataset_files,
    describe,
    download,
    fetch_files,
    file_state,
    require,
)

CONTENT = bytes(range(256)) * 2048  # half a megabyte
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def test_the_folder_is_the_argument_then_the_variable_then_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GPNN_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert data_folder() == tmp_path / "variable"
    monkeypatch.delenv("GPNN_DATA")
    assert data_folder() == tmp_path / "cache" / "gpnn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "gpnn"
    assert data_folder("~/here") == tmp_path / "here"


@pytest.mark.parametrize(("name", "count"), [("cora", 8), ("citeseer", 8), ("pubmed", 8), ("nell", 25), ("babi", 60)])
def test_every_file_has_a_checksum_and_a_home(name: str, count: int) -> None:
    files = dataset_files(name)
    assert len(files) == count
    for file in files:
        assert file.path.startswith(PREFIXES[name])
        assert len(bytes.fromhex(file.sha256)) == 32
        assert (file.url or "").startswith("https://") or file.path == "nell/recovered_labels.npz"


def test_every_checksum_belongs_to_a_dataset() -> None:
    assert {file.path for name in PREFIXES for file in dataset_files(name)} == set(SHA256)
    assert all(path.startswith((*HOMES, *DERIVED)) for path in SHA256)


def test_generated_datasets_have_no_files() -> None:
    assert dataset_files("planted") == ()


def test_homes_follow_the_folders() -> None:
    url = describe("babi/fold_2/test/15_graphs.txt").url
    assert url is not None
    assert url.endswith("/babi_data/processed_2/test/15_graphs.txt")


def test_archives_made_from_several_sources_have_no_home() -> None:
    (file,) = dataset_files("texas")
    assert (file.path, file.url, file.optional) == ("kinds/texas.npz", None, False)


def test_labels_of_nell_are_optional() -> None:
    optional = {file.path for file in dataset_files("nell") if file.optional}
    assert optional == {f"nell/ind.nell.{rate}.ally" for rate in ("0.1", "0.01", "0.001")} | {
        "nell/recovered_labels.npz"
    }


def test_the_state_of_a_file(tmp_path: Path) -> None:
    file = DataFile("one", hashlib.sha256(b"right").hexdigest(), None)
    assert file_state(file, tmp_path) == "missing"
    assert file_state(DataFile("one", file.sha256, None, optional=True), tmp_path) == "optional"
    (tmp_path / "one").write_bytes(b"wrong")
    assert file_state(file, tmp_path) == "corrupt"
    (tmp_path / "one").write_bytes(b"right")
    assert file_state(file, tmp_path) == "ok"


def test_require_fetches_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched: list[str] = []
    monkeypatch.setattr("gpnn.data.files.fetch_files", lambda files, root: fetched.extend(f.path for f in files))
    (tmp_path / "planetoid").mkdir()
    (tmp_path / "planetoid/ind.cora.x").write_bytes(b"")
    require(["planetoid/ind.cora.x"], tmp_path)
    assert fetched == []
    require(["planetoid/ind.cora.x", "planetoid/ind.cora.y"], tmp_path)
    assert fetched == ["planetoid/ind.cora.y"]


def test_the_real_files_are_those_of_the_table(data_root: Path) -> None:
    states = {file.path: file_state(file, data_root) for name in PREFIXES for file in dataset_files(name)}
    wrong = {path: state for path, state in states.items() if state not in ("ok", "optional")}
    assert wrong == {}


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `cuts` of the answers end after `cut_after` bytes; `ranges` collects what was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts, self.cut_after, self.honours_ranges, self.sends_length = 0, 100_000, True, True
        self.ranges: list[str | None] = []

    def url(self, path: str = "/file") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        start = int(asked[len("bytes=") : -1]) if asked and self.server.honours_ranges else 0
        if self.path != "/file":
            return self.send_error(404)
        if start >= len(CONTENT):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if self.server.sends_length:
            self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.server.cuts -= 1
        self.wfile.write(CONTENT[start : start + self.server.cut_after] if self.server.cuts >= 0 else CONTENT[start:])
        return None

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_file(server: Server, tmp_path: Path) -> None:
    path = download(server.url(), tmp_path / "deep" / "file", DIGEST)
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == ["file"]


def test_progress_is_told_with_the_total(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    download(server.url(), tmp_path / "file", DIGEST, lambda *step: told.append(step))
    assert told[-1] == ("file", len(CONTENT), len(CONTENT))
    assert [have for _, have, _ in told] == sorted({have for _, have, _ in told})


def test_a_cut_connection_is_resumed_in_the_same_call(server: Server, tmp_path: Path) -> None:
    server.cuts = 2
    assert download(server.url(), tmp_path / "file", DIGEST).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=200000-"]


def test_a_transfer_cut_for_good_is_kept_and_resumed_later(server: Server, tmp_path: Path) -> None:
    server.cuts = module.ATTEMPTS
    with pytest.raises(ConnectionError, match=r"was cut off 4 times; 400000 bytes are kept in file\.part"):
        download(server.url(), tmp_path / "file", DIGEST)
    assert names(tmp_path) == ["file.part"]
    server.ranges.clear()
    assert download(server.url(), tmp_path / "file", DIGEST).read_bytes() == CONTENT
    assert server.ranges == ["bytes=400000-"]
    assert names(tmp_path) == ["file"]


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.honours_ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    assert download(server.url(), tmp_path / "file", DIGEST).read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-"]


def test_a_server_that_tells_no_length(server: Server, tmp_path: Path) -> None:
    server.sends_length = False
    assert download(server.url(), tmp_path / "file", DIGEST).read_bytes() == CONTENT


def test_a_part_that_was_already_whole(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert download(server.url(), tmp_path / "file", DIGEST).read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_part_of_another_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"something else")
    assert download(server.url(), tmp_path / "file", DIGEST).read_bytes() == CONTENT
    assert server.ranges == ["bytes=14-", None]


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    wrong = "0" * 64
    with pytest.raises(ValueError, match=rf"/file must have sha256 {wrong}\. Got {DIGEST}; nothing was kept\."):
        download(server.url(), tmp_path / "file", wrong)
    assert names(tmp_path) == []


@pytest.mark.parametrize("sends_length", [True, False])
def test_a_body_without_end_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends_length: bool
) -> None:
    server.sends_length = sends_length
    monkeypatch.setattr(module, "MOST", 1 << 18)
    with pytest.raises(ConnectionError, match=r"must be at most 0 GiB\. Got more; nothing was kept\."):
        download(server.url(), tmp_path / "file", DIGEST)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_a_part_is_not_followed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / "file.part").symlink_to(tmp_path / "other")
    assert download(server.url(), tmp_path / "file", DIGEST).read_bytes() == CONTENT
    assert (tmp_path / "other").read_text() == "kept"


def test_a_missing_address_is_named(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"could not be fetched from .*/other: the server returned 404\."):
        download(server.url("/other"), tmp_path / "file", DIGEST)
    assert names(tmp_path) == []


def test_offline_says_the_way_out(server: Server, tmp_path: Path) -> None:
    url = "http://127.0.0.1:1/file"
    with pytest.raises(
        ConnectionError, match=rf"file is not in .* {url}: Connection refused\. .*`--root` or GPNN_DATA\."
    ):
        download(url, tmp_path / "file", DIGEST)
    assert names(tmp_path) == []


def test_files_that_are_there_are_not_fetched_again(server: Server, tmp_path: Path) -> None:
    files = [DataFile("a/one", DIGEST, server.url()), DataFile("two", DIGEST, server.url()), DataFile("x", "", None)]
    (tmp_path / "two").write_bytes(b"mine")
    told: list[str] = []
    assert fetch_files(files, tmp_path, lambda name, *_: told.append(name)) == [tmp_path / "a/one", tmp_path / "two"]
    assert set(told) == {"one"}
    assert (tmp_path / "two").read_bytes() == b"mine"
    assert len(server.ranges) == 1


def test_the_bar_of_the_terminal(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch_files([DataFile("one", DIGEST, server.url())], tmp_path)
    assert (tmp_path / "one").read_bytes() == CONTENT
    assert capsys.readouterr().out == ""


def test_two_at_once_fetch_once(server: Server, tmp_path: Path) -> None:
    files = [DataFile("one", DIGEST, server.url())]
    threads = [threading.Thread(target=fetch_files, args=(files, tmp_path, lambda *_: None)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.ranges == [None]
    assert (tmp_path / "one").read_bytes() == CONTENT
