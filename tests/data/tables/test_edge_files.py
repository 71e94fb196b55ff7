"""Several files of edges are edge types by their names, or parts of one table; columns of edges are used or refused."""

from pathlib import Path

import pytest
import torch

import gpnn
from gpnn.data.convert import convert
from gpnn.data.stored import load_stored
from gpnn.data.tables import Vocabulary
from gpnn.data.tables.edge_files import file_types

NODES = "id\na\nb\nc\n"


def write(folder: Path, **files: str) -> Path:
    for name, text in {"nodes": NODES, **files}.items():
        path = folder / f"{name}.csv".replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("prefix", ["edges_", "edges-", "edges__"])
def test_files_are_edge_types(tmp_path: Path, prefix: str):
    files = {f"{prefix}follows": "source,target\na,b\n", f"{prefix}writes": "source,target,weight\nb,c,0.5\n"}
    data = gpnn.load_dataset(write(tmp_path, **files))
    assert data.edge_type_names == ["follows", "writes"]
    assert (data.edge_type.tolist(), data.edge_index.tolist()) == ([0, 1], [[0, 1], [1, 2]])
    assert data.edge_weight.tolist() == [1.0, 0.5]  # as HeteroData has it
    assert "the 2 files of edges are edge types: follows, writes" in data.notes


def test_later_tables_may_lack_a_type(tmp_path: Path):
    first = write(tmp_path, edges_follows="source,target\na,b\n", edges_writes="source,target\nb,c\n")
    vocabulary = gpnn.load_dataset(first).vocabulary
    (first / "edges_follows.csv").unlink()
    later = gpnn.load_dataset(first, vocabulary=vocabulary)
    assert (later.edge_type.tolist(), later.edge_type_names) == ([1], ["follows", "writes"])


def test_numbered_files_and_files_with_types_are_one_table(tmp_path: Path):
    data = gpnn.load_dataset(write(tmp_path, edges_0="source,target\na,b\n", edges_1="source,target\nb,c\n"))
    assert data.get("edge_type") is None
    other = tmp_path / "other"
    other.mkdir()
    write(other, edges_may="source,target,type\na,b,x\n", edges_june="source,target,type\nb,c,y\n")
    assert gpnn.load_dataset(other).edge_type_names == ["x", "y"]
    assert file_types([Path("part-00000-ab.snappy.parquet"), Path("part-00001-ab.snappy.parquet")]) is None


def test_files_must_agree(tmp_path: Path):
    write(tmp_path, edges_a="source,target\na,b\n", edges_b="source,to\nb,c\n")
    with pytest.raises(ValueError, match=r"edges_a\.csv must have a column to\."):
        gpnn.load_dataset(tmp_path)
    write(tmp_path, edges_b="source,target\nb,zoe\n")
    with pytest.raises(
        ValueError, match=r"edges_b\.csv, line 2, column target: must be an id of nodes\.csv. Got 'zoe'"
    ):
        gpnn.load_dataset(tmp_path)
    write(tmp_path, edges__c="source,target\na,b\n")
    with pytest.raises(ValueError, match=r"either in files edges_\* or in a folder edges\. Got both\."):
        gpnn.load_dataset(tmp_path)


def test_patterns_and_folders_may_be_given(tmp_path: Path):
    write(tmp_path, links_x="source,target\na,b\n", links_y="source,target\nb,c\n")
    data = gpnn.load_dataset(tmp_path, nodes="nodes.csv", edges="links_*.csv")
    assert data.edge_type_names == ["links_x", "links_y"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_conversion_reads_the_same(tmp_path: Path, suffix: str):
    import gzip

    write(tmp_path, edges_follows="Source;Target;weight\na;b;0,5\n", edges_writes="source;target;weight\nb;c;2\n")
    for path in list(tmp_path.glob("*.csv")) if suffix else []:
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    data = gpnn.load_dataset(tmp_path) if suffix else None
    convert(str(tmp_path / "edges_*"), tmp_path / f"nodes.csv{suffix}", tmp_path / "out")
    stored = load_stored(tmp_path / "out")
    assert stored.edge_type_names == ["follows", "writes"]
    assert sorted(stored.graph.edge_weight.tolist()) == [0.5, 2.0]
    assert any("edge types" in note for note in stored.notes)
    assert any("0,5 is read as 0.5" in note for note in stored.notes)
    if data is not None:
        assert sorted(data.edge_weight.tolist()) == [0.5, 2.0]


class TestColumns:
    EDGES = "source,target,since,amount\na,b,2020-01-01,1\nb,c,2020-01-03,3\n"

    def test_columns_without_a_use_are_refused(self, tmp_path: Path):
        write(tmp_path, edges=self.EDGES)
        sentence = r"edges\.csv may have the columns .* \(data\.ignore=since leaves it out, data\.weight=since makes it"
        with pytest.raises(ValueError, match=sentence):
            gpnn.load_dataset(tmp_path)
        data = gpnn.load_dataset(tmp_path, ignore="since", weight="amount")
        assert data.edge_weight.tolist() == [1.0, 3.0]

    def test_edge_features(self, tmp_path: Path):
        write(tmp_path, edges=self.EDGES)
        data = gpnn.load_dataset(tmp_path, edge_features="since,amount")
        assert data.edge_attr.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
        both = gpnn.load_dataset(tmp_path, edge_features="since,amount", undirected=True)
        assert both.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        assert both.edge_attr[:, 0].tolist() == [-1.0, -1.0, 1.0, 1.0]
        kept = Vocabulary.from_mapping(data.vocabulary.to_mapping())
        write(tmp_path, edges="source,target,since,amount\na,b,2020-01-02,4\n")
        assert gpnn.load_dataset(tmp_path, vocabulary=kept).edge_attr.tolist() == [[0.0, 2.0]]

    def test_a_single_feature_is_not_the_weight(self, tmp_path: Path):
        write(tmp_path, edges="source,target,amount\na,b,1\nb,c,3\n")
        data = gpnn.load_dataset(tmp_path, edge_features="amount")
        assert gpnn.Graph.from_data(data).edge_weight.tolist() == [1.0, 1.0]

    def test_a_convolution_takes_them(self, tmp_path: Path):
        from torch_geometric.nn import GATConv

        edges = self.EDGES + "c,b,2020-01-02,9\n"
        data = gpnn.load_dataset(write(tmp_path, edges=edges), edge_features="since,amount")
        conv = gpnn.nn.Scheduled(GATConv(4, 4, edge_dim=2, add_self_loops=False))
        plan = gpnn.lower(data, gpnn.schedule.synchronous(data, rounds=1))
        state = torch.eye(3, 4)
        assert not conv(state, plan, edge_attr=data.edge_attr).equal(conv(state, plan, edge_attr=0 * data.edge_attr))
