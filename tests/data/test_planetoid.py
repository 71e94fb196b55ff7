"""Citation networks and NELL: six nodes worked out by hand, and the real ones against the paper's Table 1."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import load_dataset
from gpnn.data.planetoid import nell
from gpnn.graph import Graph
from gpnn.storage import read
from tests.data.conftest import write_planetoid


class TestSixNodes:
    def test_rows_go_to_their_nodes(self, tiny_cora: Path) -> None:
        data = load_dataset("cora", root=tiny_cora)
        assert data.x.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 3], [0, 0, 0], [0, 4, 4], [5, 5, 0]]
        assert data.y.tolist() == [1, 0, 0, -1, 1, 0]
        assert data.num_classes == 2

    def test_the_split_is_the_first_rows_the_next_ones_and_the_test_index(self, tiny_cora: Path) -> None:
        data = load_dataset("cora", root=tiny_cora)
        masks = [mask.nonzero().flatten().tolist() for mask in (data.train_mask, data.val_mask, data.test_mask)]
        assert masks == [[0], [1, 2], [4, 5]]

    @pytest.mark.parametrize("protocol", [3, 4, 5])
    def test_files_written_today_read_the_same(self, tiny_cora: Path, protocol: int) -> None:
        wanted = load_dataset("cora", root=tiny_cora)
        write_planetoid(tiny_cora / "planetoid" / "ind.cora.", protocol=protocol)
        assert torch.equal(load_dataset("cora", root=tiny_cora).x, wanted.x)

    def test_edges_keep_the_order_and_the_repeats_of_the_file(self, tiny_cora: Path) -> None:
        data = load_dataset("cora", root=tiny_cora)
        assert data.edge_index.tolist() == [[0, 0, 1, 1, 1, 2, 4, 5], [1, 1, 0, 0, 2, 1, 5, 4]]

    def test_features_may_be_sparse_and_normalised(self, tiny_cora: Path) -> None:
        data = load_dataset("cora", root=tiny_cora, sparse=True, normalize_features=True)
        assert data.x.layout == torch.sparse_csr
        assert data.x.to_dense()[3:].tolist() == [[0, 0, 0], [0, 0.5, 0.5], [0.5, 0.5, 0]]

    def test_an_unknown_split_lists_the_choices(self, tiny_cora: Path) -> None:
        with pytest.raises(ValueError, match=r"`split` must be one of standard, random, development\. Got 'fixed'\."):
            load_dataset("cora", root=tiny_cora, split="fixed")


class TestDamagedFiles:
    def test_a_wide_matrix_is_not_made_dense(self, tiny_cora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(read, "SMALL", 0)
        monkeypatch.setattr(read, "EXPANSION", 0)
        assert load_dataset("cora", root=tiny_cora, sparse=True).x.shape == (6, 3)
        with pytest.raises(ValueError, match=r"ind\.cora\.allx must unpack to at most 0 times its size\."):
            load_dataset("cora", root=tiny_cora)

    @pytest.mark.parametrize(
        ("suffix", "content", "message"),
        [
            ("graph", {0: [1], 2: [0]}, r"ind\.cora\.graph must number its 2 nodes from 0 without gaps"),
            ("graph", {0: ["1"]}, r"ind\.cora\.graph must hold integers for nodes"),
            ("graph", [[1], [0]], r"ind\.cora\.graph must hold a dictionary of lists"),
            ("graph", {0: (1,)}, r"ind\.cora\.graph must hold a dictionary of lists"),
            ("graph", {node: [] for node in range(5)}, r"test\.index must hold nodes from 3 to 4\. Got 4 to 5"),
            ("ty", np.zeros((3, 2), np.int32), r"test\.index must have one line for each row of tx and ty\. Got 2"),
            ("ally", np.zeros((2, 2), np.int32), r"ind\.cora\.ally must have as many rows as allx\. Got 2"),
            ("y", np.zeros(2, np.int32), r"ind\.cora\.\* must hold sparse features and labels of two dimensions"),
        ],
    )
    def test_names_the_file(self, tiny_cora: Path, suffix: str, content: object, message: str) -> None:
        (tiny_cora / "planetoid" / f"ind.cora.{suffix}").write_bytes(pickle.dumps(content))
        with pytest.raises(ValueError, match=message):
            load_dataset("cora", root=tiny_cora)

    def test_neighbours_repeated_by_reference_do_not_fill_the_memory(self, tiny_cora: Path) -> None:
        many = list(range(1000))
        graph = dict.fromkeys(range(1000), many)  # a million entries in a few thousand bytes
        (tiny_cora / "planetoid" / "ind.cora.graph").write_bytes(pickle.dumps(graph))
        with pytest.raises(ValueError, match=r"must write each neighbour once\. Got 1000000 entries"):
            load_dataset("cora", root=tiny_cora)

    def test_a_crafted_file_is_refused(self, tiny_cora: Path) -> None:
        (tiny_cora / "planetoid" / "ind.cora.allx").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
        with pytest.raises(ValueError, match=r"ind\.cora\.allx was refused: the name os\.system is not admitted"):
            load_dataset("cora", root=tiny_cora)


# name, nodes, adjacency entries, distinct edges, loops, edges of Table 1, features, classes, split
TABLE = [
    ("cora", 2_708, 10_858, 10_556, 0, 5_429, 1_433, 7, [140, 500, 1000]),
    ("citeseer", 3_327, 9_464, 9_228, 124, 4_732, 3_703, 6, [120, 500, 1000]),
    ("pubmed", 19_717, 88_676, 88_651, 3, 44_338, 500, 3, [60, 500, 1000]),
]


@pytest.mark.parametrize(
    ("name", "nodes", "entries", "distinct", "loops", "printed", "width", "classes", "split"),
    TABLE,
    ids=[row[0] for row in TABLE],
)
def test_statistics(
    data_root: Path,
    name: str,
    nodes: int,
    entries: int,
    distinct: int,
    loops: int,
    printed: int,
    width: int,
    classes: int,
    split: list[int],
) -> None:
    data = load_dataset(name, root=data_root)
    graph = Graph.from_data(data)
    single = graph.coalesce()
    assert (graph.num_nodes, graph.num_edges, single.num_edges) == (nodes, entries, distinct)
    assert int((single.src == single.dst).sum()) == loops
    assert entries == 2 * printed  # the paper counts the file's entries once for both directions
    assert single.num_edges == single.to_undirected().num_edges  # both directions are there
    assert tuple(data.x.shape) == (nodes, width)
    assert data.num_classes == classes == data.y.max() + 1
    assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == split
    assert data.y[data.train_mask].bincount().tolist() == [20] * classes


def test_label_rates_are_those_of_table_1(data_root: Path) -> None:
    for name, rate in (("citeseer", 0.036), ("cora", 0.052), ("pubmed", 0.003)):
        assert load_dataset(name, root=data_root).train_mask.float().mean() == pytest.approx(rate, abs=5e-4)


def test_citeseer_misses_15_rows_and_joins_48_nodes_to_themselves_at_most(data_root: Path) -> None:
    data = load_dataset("citeseer", root=data_root)
    missing = data.y == -1
    assert int(missing.sum()) == 15
    assert data.x[missing].count_nonzero() == 0
    assert not (missing & (data.train_mask | data.val_mask | data.test_mask)).any()
    graph = Graph.from_data(data)
    joined = torch.zeros(graph.num_nodes, dtype=torch.bool)
    joined[graph.src[graph.src != graph.dst]] = True
    assert int((~joined).sum()) == 48


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_random_splits(data_root: Path, name: str) -> None:
    data, again, other = (load_dataset(name, root=data_root, split="random", seed=seed) for seed in (4, 4, 5))
    assert data.y[data.train_mask].bincount().tolist() == [20] * data.num_classes
    assert (int(data.val_mask.sum()), int(data.test_mask.sum())) == (500, 1000)
    assert torch.equal(data.test_mask, again.test_mask)
    assert not torch.equal(data.test_mask, other.test_mask)


def test_development_splits_leave_the_public_test_nodes_alone(data_root: Path) -> None:
    public, data = (load_dataset("citeseer", root=data_root, split=split) for split in ("standard", "development"))
    assert data.y[data.train_mask].bincount().tolist() == [20] * data.num_classes
    used = data.train_mask | data.val_mask | data.test_mask
    assert int(data.val_mask.sum()) == 500
    assert torch.equal(used, ~public.test_mask & (data.y >= 0))


def test_sparse_features_are_the_dense_ones(data_root: Path) -> None:
    dense, sparse = (load_dataset("cora", root=data_root, sparse=sparse).x for sparse in (False, True))
    assert torch.equal(sparse.to_dense(), dense)
    rows = load_dataset("cora", root=data_root, normalize_features=True).x.sum(dim=1)
    assert torch.allclose(rows, torch.ones(2708))


class TestSixNodesOfNell:
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
        monkeypatch.setattr("gpnn.data.planetoid.NUM_VAL", 1)
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

        monkeypatch.setattr("gpnn.data.files.fetch_files", fetch)
        assert nell(tmp_path, rate=0.1).val_mask.any()
        assert asked == ["nell/ind.nell.0.1.ally"]

    def test_an_unknown_rate_lists_the_choices(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"`rate` must be one of 0\.1, 0\.01, 0\.001\. Got 0\.5\."):
            nell(tmp_path, rate=0.5)


@pytest.fixture(scope="module")
def rarest(data_root: Path) -> Data:
    return load_dataset("nell", root=data_root, rate=0.001)


@pytest.mark.parametrize(("rate", "train", "test"), [(0.1, 1054, 848), (0.01, 161, 987), (0.001, 105, 969)])
def test_statistics_of_nell(data_root: Path, rate: float, train: int, test: int) -> None:
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
