"""What `gpnn data list|fetch|check` shows."""

from pathlib import Path

import pytest

from gpnn.data import DATASETS, fetch_dataset, list_datasets, verify_files
from gpnn.data.diel import diel_files
from gpnn.data.files import DataFile
from gpnn.data.formats.ogb import OGB
from gpnn.data.kinds import KINDS


def test_every_dataset_is_listed_with_a_line_and_its_options(tmp_path: Path) -> None:
    infos = {info.name: info for info in list_datasets(tmp_path)}
    assert list(infos) == list(DATASETS)
    for info in infos.values():
        assert 20 < len(info.description) < 120
        assert info.options or info.name in OGB
        files = ("cora", "citeseer", "pubmed", "nell", "diel", "babi", *KINDS, *OGB)
        assert info.present == (info.name not in files)
    assert infos["nell"].options == {"rate": 0.001}


def test_presence_follows_the_files(tmp_path: Path) -> None:
    (tmp_path / "planetoid").mkdir()
    for suffix in ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"):
        (tmp_path / "planetoid" / f"ind.cora.{suffix}").write_bytes(b"")
    present = {info.name for info in list_datasets(tmp_path) if info.present}
    assert "cora" in present
    assert "citeseer" not in present


def test_files_are_verified_one_by_one(tmp_path: Path) -> None:
    assert set(verify_files("cora", tmp_path).values()) == {"missing"}
    (tmp_path / "planetoid").mkdir()
    (tmp_path / "planetoid" / "ind.cora.x").write_bytes(b"not it")
    states = verify_files("cora", tmp_path)
    assert states["planetoid/ind.cora.x"] == "corrupt"
    assert states["planetoid/ind.cora.y"] == "missing"
    assert len(states) == 8


def test_the_real_files_are_ok(data_root: Path) -> None:
    for name in ("cora", "citeseer", "pubmed", "babi", *KINDS):
        assert set(verify_files(name, data_root).values()) == {"ok"}
    assert set(verify_files("nell", data_root).values()) <= {"ok", "optional"}


def test_generated_datasets_have_nothing_to_verify_or_fetch(tmp_path: Path) -> None:
    assert verify_files("planted", tmp_path) == {}
    assert fetch_dataset("planted", tmp_path) == []


def test_diel_is_present_or_missing_and_never_fetched(tmp_path: Path) -> None:
    assert set(verify_files("diel", tmp_path).values()) == {"missing"}
    with pytest.raises(ValueError, match=r"diel has no copy that can be verified: unpack http.*are in .*diel\."):
        fetch_dataset("diel", tmp_path)
    for split in range(10):
        for name in diel_files(split):
            path = tmp_path / "diel" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    assert set(verify_files("diel", tmp_path).values()) == {"unverified"}
    assert fetch_dataset("diel", tmp_path) == []


def test_a_kind_is_present_or_missing_and_never_fetched(tmp_path: Path) -> None:
    assert verify_files("texas", tmp_path) == {"kinds/texas.npz": "missing"}
    with pytest.raises(
        ValueError, match=r"texas must be in .*texas\.npz, .* made from github\.com/yandex-research/.*\."
    ):
        fetch_dataset("texas", tmp_path)
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "texas.npz").write_bytes(b"not it")
    assert verify_files("texas", tmp_path) == {"kinds/texas.npz": "corrupt"}
    assert fetch_dataset("texas", tmp_path) == []


def test_fetching_asks_for_the_dataset_s_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[DataFile] = []

    def fetch(files: tuple[DataFile, ...], root: Path, progress: object) -> list[Path]:
        asked.extend(files)
        assert root == tmp_path
        return [root / file.path for file in files]

    monkeypatch.setattr("gpnn.data.download.fetch_files", fetch)
    assert fetch_dataset("pubmed", tmp_path) == [tmp_path / file.path for file in asked]
    assert {file.path.split(".")[1] for file in asked} == {"pubmed"}


@pytest.mark.parametrize("function", [verify_files, fetch_dataset])
def test_unknown_names(function, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"A dataset must be one of .* Got 'coro' \(the nearest is cora\)\."):
        function("coro", tmp_path)
