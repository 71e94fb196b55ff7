"""Where files are kept and whether they are whole."""

import hashlib
from pathlib import Path

import pytest

from gpnn.data.files import (
    DERIVED,
    HOMES,
    PREFIXES,
    SHA256,
    DataFile,
    data_folder,
    dataset_files,
    describe,
    file_state,
    require,
)


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
    monkeypatch.setattr("gpnn.data.download.fetch_files", lambda files, root: fetched.extend(f.path for f in files))
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
