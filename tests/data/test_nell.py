"""NELL: six nodes worked out by hand, and the real one against the paper's Table 1."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import load_dataset
from gpnn.data.nell import nell
from gpnn.graph import Graph
from tests.data.conftest import write_planetoid


class TestSixNodes:
    def test_relation_nodes_have_a_column_each(self, tmp_path: Path) -> None:
        write_planetoid(tmp_path / "nell" / "ind.nell.0.1.")
        data = nell(tmp_path, rate=0.1)
        assert data.x.layout == torch.sparse_csr
        assert data.x.to_dense().tolist() == [
            [1, 0, 0, 0],
            [0, 2, 0, 0],
            [0, 0, 3, 0],
            [0, 0, 0, 1],  # the one node that is no entity
            [0, 4, 4, 0],
            [5, 5, 0, 0],
        ]

    def test_kipf_validates_on_the_rows_after_the_training_ones(self, tmp_path: Path) -> None:
        write_planetoid(tmp_path / "nell" / "ind.nell.0.1.")
        data = nell(tmp_path, rate=0.1)
        assert data.y.tolist() == [1, 0, 0, -1, 1, 0]
        masks = [mask.nonzero().flatten().tolist() for mask in (data.train_mask, data.val_mask, data.test_mask)]
        assert masks == [[0], [1, 2], [4, 5]]

    def test_recovered_labels_stand_in_for_ally(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_planetoid(tmp_path / "nell" / "ind.nell.0.01.", with_ally=False)
        monkeypatch.setattr("gpnn.data.nell.NUM_VAL", 1)
        np.savez(
            tmp_path / "nell" / "recovered_labels.npz",
            labels_0_01=np.array([1, 0, -1, -1, 1, 0], np.int16),
            source_0_01=np.array([1, 4, 0, 0, 2 | 4, 2], np.int8),
        )
        data = nell(tmp_path, rate=0.01)
        assert data.y.tolist() == [1, 0, -1, -1, 1, 0]
        assert data.val_mask.tolist() == [False, True, False, False, False, False]  # 4 alone, and not of this rate

    def test_without_either_the_labels_are_fetched(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_planetoid(tmp_path / "nell" / "ind.nell.0.1.", with_ally=False)
        asked: list[str] = []

        def fetch(files: list, root: Path) -> None:
            asked.extend(file.path for file in files)
            write_planetoid(root / "nell" / "ind.nell.0.1.")

        monkeypatch.setattr("gpnn.data.download.fetch_files", fetch)
        assert nell(tmp_path, rate=0.1).val_mask.any()
        assert asked == ["nell/ind.nell.0.1.ally"]

    def test_an_unknown_rate_lists_the_choices(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"`rate` must be one of 0\.1, 0\.01, 0\.001\. Got 0\.5\."):
            nell(tmp_path, rate=0.5)


@pytest.fixture(scope="module")
def rarest(data_root: Path) -> Data:
    return load_dataset("nell", root=data_root, rate=0.001)


@pytest.mark.parametrize(("rate", "train", "test"), [(0.1, 1054, 848), (0.01, 161, 987), (0.001, 105, 969)])
def test_statistics(data_root: Path, rate: float, train: int, test: int) -> None:
    data = load_dataset("nell", root=data_root, rate=rate)
    graph = Graph.from_data(data)
    assert (graph.num_nodes, graph.num_edges, graph.coalesce().num_edges) == (65_755, 532_288, 251_550)
    assert graph.num_edges == 2 * 266_144  # Table 1 counts the file's entries once for both directions
    assert tuple(data.x.shape) == (65_755, 5_414 + 55_864)
    assert data.num_classes == 210
    assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [train, 500, test]
    assert len(data.y[data.train_mask].unique()) == 105


def test_relations_and_entities_share_no_column(rarest: Data) -> None:
    x = rarest.x
    column, ptr = x.col_indices().numpy(), x.crow_indices().numpy()
    owned = column >= 5_414
    assert np.array_equal(column[owned], np.arange(5_414, 61_278))  # each once, in the order of the nodes
    has_own = np.add.reduceat(owned, ptr[:-1][np.diff(ptr) > 0])
    assert has_own.sum() == 55_864
    assert (x.values().numpy()[owned] == 1).all()


def test_validation_without_ally_is_as_the_recovered_labels_say(data_root: Path, rarest: Data) -> None:
    if (data_root / "nell" / "ind.nell.0.001.ally").is_file():
        pytest.skip("ally is there: validation is Kipf's")
    data = rarest
    with np.load(data_root / "nell" / "recovered_labels.npz") as arrays:
        source, labels = arrays["source_0_001"], arrays["labels_0_001"]
    val = data.val_mask.numpy()
    assert (source[val] & 4 == 4).all()
    assert (source[val] & 3 == 0).all()
    assert (data.y.numpy()[val] == labels[val]).all()
    assert int((data.y >= 0).sum()) == 3_577
