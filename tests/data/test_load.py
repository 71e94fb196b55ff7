"""load_dataset: every kind of source, names that it does not know; what `gpnn data list|fetch|check` shows."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset

import gpnn
from gpnn.data import DATASETS, fetch_dataset, list_datasets, load_dataset, verify_files
from gpnn.data.diel import diel_files
from gpnn.data.files import DataFile
from gpnn.data.kinds import KINDS
from gpnn.data.ogb import OGB

EDGES = torch.tensor([[0, 1], [1, 0]])


class Single(InMemoryDataset):
    """A PyG dataset of the given graphs."""

    def __init__(self, *graphs: Data) -> None:
        super().__init__(None)
        self.data, self.slices = self.collate(list(graphs))


def graph(**parts: object) -> Data:
    return Data(x=torch.eye(2), edge_index=EDGES, y=torch.tensor([0, 1]), **parts)


class TestObjects:
    def test_is_public(self) -> None:
        assert gpnn.load_dataset is load_dataset

    def test_a_data(self) -> None:
        data = graph()
        assert load_dataset(data).num_classes == 2
        assert load_dataset(data).x is data.x

    def test_a_dataset_object(self) -> None:
        loaded = load_dataset(Single(graph(train_mask=torch.tensor([True, False]))))
        assert loaded.num_classes == 2
        assert loaded.train_mask.tolist() == [True, False]

    def test_a_dataset_object_that_knows_of_more_classes(self) -> None:
        class Wide(Single):
            num_classes = 5

        assert load_dataset(Wide(graph())).num_classes == 5

    def test_a_benchmark_that_keeps_its_split_apart(self) -> None:
        class Benchmark:
            """As the Open Graph Benchmark's: labels of one column, the split as ids."""

            num_classes = 2

            def __len__(self) -> int:
                return 1

            def __getitem__(self, number: int) -> Data:
                return Data(edge_index=EDGES, y=torch.tensor([[0], [1], [1]]), num_nodes=3)

            def get_idx_split(self) -> dict[str, torch.Tensor]:
                return {"train": torch.tensor([0]), "valid": torch.tensor([2]), "test": torch.tensor([1])}

        loaded = load_dataset(Benchmark())
        assert loaded.y.tolist() == [0, 1, 1]
        assert loaded.val_mask.tolist() == [False, False, True]

    def test_many_graphs_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"must hold one graph; pass one of its graphs\. Got 2 graphs\."):
            load_dataset(Single(graph(), graph()))

    def test_options_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"A Data accepts no options\. Got seed\."):
            load_dataset(graph(), seed=1)

    def test_what_is_wrong_in_it_is_named(self) -> None:
        with pytest.raises(ValueError, match=r"`x` must have one row for each of the 5 nodes\. Got 2\."):
            load_dataset(graph(num_nodes=5))

    def test_other_objects(self) -> None:
        with pytest.raises(ValueError, match=r"`source` must be a dataset's name, a folder, .* Got int\."):
            load_dataset(3)
        with pytest.raises(ValueError, match=r"`data` must have at least one edge type\. Got none\."):
            load_dataset(HeteroData())


class TestNames:
    def test_an_unknown_name_says_where_the_choices_are_and_the_nearest(self) -> None:
        choices = r"a dataset \(`gpnn data list` has them\), .* or a file that ends in \.graph, .*\.db"
        with pytest.raises(ValueError, match=rf"{choices}\. Got 'coar' \(the nearest is cora\)\."):
            load_dataset("coar")
        with pytest.raises(ValueError, match=r"or a file that ends in \.graph, .*\.db\. Got 'zzz'\.$"):
            load_dataset("zzz")

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"or a file that ends in \.graph, .*\.db\. '.*nowhere' does not exist\.$"):
            load_dataset(tmp_path / "nowhere")
        (tmp_path / "notes.txt").touch()
        with pytest.raises(ValueError, match=r"'.*notes\.txt' is of another kind\.$"):
            load_dataset(tmp_path / "notes.txt")

    @pytest.mark.parametrize("name", DATASETS)
    def test_unknown_options_are_refused_with_the_valid_ones(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(
            ValueError, match=rf"An option of {name} must be (one of|left out).*\. Got nonsense, other\."
        ):
            load_dataset(name, root=tmp_path, nonsense=1, other=2)
        assert not any(tmp_path.iterdir())

    def test_the_nearest_option_is_named(self) -> None:
        with pytest.raises(ValueError, match=r"Got num_node \(the nearest is num_nodes\)\."):
            load_dataset("chain", num_node=3)

    def test_the_folder_comes_from_the_environment(self, tiny_cora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GPNN_DATA", str(tiny_cora))
        assert load_dataset("cora").num_nodes == 6


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

    monkeypatch.setattr("gpnn.data.load.fetch_files", fetch)
    assert fetch_dataset("pubmed", tmp_path) == [tmp_path / file.path for file in asked]
    assert {file.path.split(".")[1] for file in asked} == {"pubmed"}


@pytest.mark.parametrize("function", [verify_files, fetch_dataset])
def test_unknown_names(function, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"A dataset must be one of .* Got 'coro' \(the nearest is cora\)\."):
        function("coro", tmp_path)
