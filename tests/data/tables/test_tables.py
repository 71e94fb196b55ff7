"""A user's folder: what is read, and one sentence for each thing that is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import csv, parquet
from scipy.sparse import csr_matrix, save_npz

import gpnn
from gpnn.data import load_dataset
from gpnn.data.convert import convert
from gpnn.data.stored import load_stored
from gpnn.data.tables import file_types
from gpnn.data.tables.vocabulary import Vocabulary

NODES = "id,label,split\nanna,red,train\nbert,blue,val\ncleo,red,test\ndora,,\n"
EDGES = "source,target\nanna,bert\ncleo,anna\n"
THREE = "id\na\nb\nc\n"


def write(folder: Path, nodes: str = NODES, edges: str = EDGES, features: Any = None) -> Path:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    if features is not None:
        np.savez(folder / "features.npz", features)
    return folder


class TestReading:
    def test_text_ids_labels_and_splits(self, tmp_path: Path) -> None:
        data = load_dataset(write(tmp_path))
        assert data.node_name.tolist() == ["anna", "bert", "cleo", "dora"]
        assert data.class_names == ["blue", "red"]
        assert data.y.tolist() == [1, 0, 1, -1]
        assert data.num_classes == 2
        assert data.edge_index.tolist() == [[0, 2], [1, 0]]
        masks = [mask.tolist().index(True) for mask in (data.train_mask, data.val_mask, data.test_mask)]
        assert masks == [0, 1, 2]
        assert data.get("x") is None

    def test_a_path_as_text(self, tmp_path: Path) -> None:
        assert load_dataset(str(write(tmp_path))).num_nodes == 4

    def test_whole_numbers_are_classes_in_their_order(self, tmp_path: Path) -> None:
        data = load_dataset(write(tmp_path, "id,label\n7,10\n3,9\n5,-1\n1,9\n", "source,target\n7,1\n"))
        assert data.class_names == [9, 10]
        assert data.node_name.tolist() == [7, 3, 5, 1]
        assert data.y.tolist() == [1, 0, -1, 0]
        assert data.edge_index.tolist() == [[0], [3]]

    @pytest.mark.parametrize("word", ["NA", "None", "?"])
    def test_a_class_that_may_mean_no_class_gets_a_note(self, tmp_path: Path, word: str) -> None:
        data = load_dataset(write(tmp_path, f"id,label\n1,a\n2,{word}\n3,b\n4,{word}\n", "source,target\n1,2\n"))
        assert word in data.class_names
        doubt = f"{word!r} counts as a class, of 2 nodes: leave their labels empty if it means unknown"
        assert data.notes[0] == doubt

    def test_further_columns_are_features(self, tmp_path: Path) -> None:
        data = load_dataset(write(tmp_path, "id,age,size\na,1,0.5\nb,2,-1e3\n", "source,target\na,b\n"), numbers="raw")
        assert data.x.tolist() == [[1, 0.5], [2, -1000]]
        assert data.x.dtype == torch.float32
        assert data.feature_names == ["age", "size"]

    def test_types_and_weights(self, tmp_path: Path) -> None:
        edges = "source,target,type,weight\nanna,bert,likes,2\nbert,anna,knows,0.5\n"
        data = load_dataset(write(tmp_path, edges=edges))
        assert data.edge_type_names == ["knows", "likes"]
        assert data.edge_type.tolist() == [1, 0]
        assert data.edge_weight.tolist() == [2, 0.5]

    def test_undirected(self, tmp_path: Path) -> None:
        data = load_dataset(write(tmp_path), undirected=True)
        assert data.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]

    def test_reverses_are_added_or_not(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"`undirected` must be one of False, True\. Got 'typed'"):
            load_dataset(write(tmp_path), undirected="typed")

    def test_without_a_split_one_is_drawn(self, tmp_path: Path) -> None:
        nodes = "id,label\n" + "".join(f"{node},{node % 2}\n" for node in range(20))
        folder = write(tmp_path, nodes, "source,target\n0,1\n")
        data, other = load_dataset(folder), load_dataset(folder, seed=1)
        assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [12, 4, 4]
        assert not torch.equal(data.train_mask, other.train_mask)

    def test_no_labels(self, tmp_path: Path) -> None:
        data = load_dataset(write(tmp_path, "id\na\nb\n", "source,target\na,b\n"))
        assert data.get("y") is None
        assert data.get("train_mask") is None

    def test_empty_lines_are_passed_over(self, tmp_path: Path) -> None:
        data = load_dataset(write(tmp_path, "id\n\na\nb\n\n", "source,target\na,b\n\n"))
        assert (data.num_nodes, data.num_edges) == (2, 1)

    def test_no_edges(self, tmp_path: Path) -> None:
        assert load_dataset(write(tmp_path, edges="source,target\n")).num_edges == 0

    def test_quotes_blanks_windows_lines_and_a_byte_order_mark(self, tmp_path: Path) -> None:
        folder = write(tmp_path, edges='source,target\n"Ann, the first",b\n')
        (folder / "nodes.csv").write_bytes('\ufeffid , label\r\n"Ann, the first", één\r\nb , x\r\n'.encode())
        data = load_dataset(folder)
        assert data.node_name.tolist() == ["Ann, the first", "b"]
        assert data.class_names == ["x", "één"]

    def test_dense_features(self, tmp_path: Path) -> None:
        data = load_dataset(write(tmp_path, features=np.arange(8).reshape(4, 2)))
        assert data.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]

    def test_sparse_features(self, tmp_path: Path) -> None:
        matrix = csr_matrix(np.array([[0, 2.0], [0, 0], [1, 0], [0, 3]]))
        save_npz(write(tmp_path) / "features.npz", matrix.tocoo())
        data = load_dataset(tmp_path)
        assert data.x.layout == torch.sparse_csr
        assert data.x.to_dense().tolist() == matrix.toarray().tolist()

    def test_classes_that_are_put_together_are_noted(self, tmp_path: Path) -> None:
        nodes = "id,label\na,art\nb,law\nc,art;law\nd,law;tea\ne,tea\nf,art;tea\n"
        data = load_dataset(write(tmp_path, nodes, "source,target\na,b\n"))
        assert data.notes[0].startswith("3 classes join others with ';', such as 'art;law'; a file `labels` with")
        apart = nodes.replace("art;law", "art, fine").replace(";", " ")
        data = load_dataset(write(tmp_path, apart.replace("art, fine", "fine"), "source,target\na,b\n"))
        assert not any("join" in note for note in data.notes)

    @pytest.mark.parametrize("sparse", [False, True])
    def test_several_labels_a_node(self, tmp_path: Path, sparse: bool) -> None:
        labels = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [-1, -1, -1]])
        folder = write(tmp_path, "id,split\na,train\nb,val\nc,test\nd,\n", "source,target\na,b\n")
        save_npz(folder / "labels.npz", csr_matrix(labels)) if sparse else np.savez(folder / "labels.npz", labels)
        data = load_dataset(folder)
        assert data.y.tolist() == labels.tolist()
        assert data.num_classes == 3
        assert data.train_mask.tolist() == [True, False, False, False]

    def test_labels_of_no_node_are_refused(self, tmp_path) -> None:
        (tmp_path / "nodes.csv").write_text("id,size\n1,1\n2,2\n")
        (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
        (tmp_path / "labels.csv").write_text("id,red,blue\n")
        with pytest.raises(
            ValueError, match=r"labels\.csv, column id: must name a node of nodes\.csv\. Got none in 0 rows"
        ):
            gpnn.load_dataset(str(tmp_path))

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_nodes_without_a_row_of_labels_or_with_an_empty_one_are_unlabelled(self, tmp_path, ending) -> None:
        folder = write(tmp_path, "id,split\na,train\nb,val\nc,\nd,\n", "source,target\na,b\n")
        rows = pyarrow.table({"id": ["b", "c", "a", "z"], "art": [0, None, 1, 1], "law": [1, None, 1, 0]})
        if ending == "parquet":
            parquet.write_table(rows, folder / "labels.parquet")
        else:
            csv.write_csv(rows, folder / "labels.csv")
        data = load_dataset(folder)
        assert data.y.tolist() == [[1, 1], [0, 1], [-1, -1], [-1, -1]]
        assert data.class_names == ["art", "law"]
        assert f"1 rows of labels.{ending} belong to no node" in data.notes

    def test_a_drawn_split_leaves_unlabelled_nodes_out(self, tmp_path: Path) -> None:
        folder = write(tmp_path, "id\n" + "".join(f"{node}\n" for node in range(12)), "source,target\n0,1\n")
        np.savez(folder / "labels.npz", np.repeat([[1.0, 0.0], [np.nan, np.nan]], [10, 2], axis=0))
        data = load_dataset(folder)
        assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [6, 2, 2]


class TestRefusing:
    @pytest.mark.parametrize(
        ("nodes", "edges", "message"),
        [
            (
                NODES,
                "source,target\nanna,zoe\n",
                r"edges\.csv, line 2, column target: must be an id of nodes\.csv\. Got 'zoe'\.",
            ),
            (
                NODES,
                "source,target\nanna,bert\n,bert\n",
                r"edges\.csv, line 3, column source: must be an id of .* Got ''\.",
            ),
            (
                NODES,
                "from,to\nanna,bert\n",
                r"edges\.csv must have a column source \(data\.source=from takes that for it\)\. Got from, to\.",
            ),
            (
                NODES,
                "source,target,colour\nanna,bert,red\n",
                r"edges\.csv may have the columns source, .* \(data\.ignore=colour .*\)\. Got colour\.",
            ),
            (
                NODES,
                "source,target,weight\nanna,bert,heavy\n",
                r"edges\.csv, line 2, column weight: must be a finite number\. Got 'heavy'\.",
            ),
            (NODES, "source,target,weight\nanna,bert,nan\n", r"column weight: must be a finite number\. Got 'nan'\."),
            (NODES, "source,target\nanna\n", r"edges\.csv, line 2: 2 values are expected\. Got 1: 'anna'\."),
            (
                NODES,
                "source,target\n\nanna,bert\n\nanna,zoe\n",
                r"edges\.csv, line 5, column target: must be .* Got 'zoe'\.",
            ),
            (
                "id\na\nb\na\n",
                EDGES,
                r"nodes\.csv, line 4, column id: must be distinct and is on line 2 already\. Got 'a'\.",
            ),
            ("id,label\na,x\n,y\n", EDGES, r"nodes\.csv, line 3, column id: must not be empty\. Got ''\."),
            (NODES, "7,8\nanna,bert\n", r"edges\.csv must have a column source, named in its first line\. Got 7, 8\."),
            ("name\na\n", EDGES, r"nodes\.csv must have a column id \(data\.id=name takes that for it\)\. Got name\."),
            ("id,id\na,b\n", EDGES, r"nodes\.csv, line 1: every column must have a name of its own\. Got 'id,id'\."),
            ("id,label\n", EDGES, r"nodes\.csv must hold at least one node\. Got none\."),
            ("", EDGES, r"nodes\.csv must be a table in UTF-8 with a header: Empty CSV file\."),
            (
                "id,label,split\na,x,trian\n",
                EDGES,
                r"nodes\.csv, line 2, column split: must be train, val, test or empty\. Got 'trian'\.",
            ),
            (
                "id,label,split\na,,train\n",
                EDGES,
                r"column split: must be test or empty where the label is unknown\. Got 'train'\.",
            ),
            (
                "id,age\na,1\nb,old\n",
                EDGES,
                r"nodes\.csv, line 3, column age: must be a finite number, like the others .* Got 'old'\.",
            ),
        ],
    )
    def test_names_file_line_column_and_value(self, tmp_path: Path, nodes: str, edges: str, message: str) -> None:
        edges = "source,target\n" if edges == EDGES and nodes != NODES else edges
        with pytest.raises(ValueError, match=f"^{message}|{message}$"):
            load_dataset(write(tmp_path, nodes, edges))

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(
            ValueError,
            match=r"must hold nodes\.csv or nodes\.tsv or nodes\.parquet or nodes\.npz\. Got an empty folder\.",
        ):
            load_dataset(tmp_path)

    def test_text_that_is_not_utf8(self, tmp_path: Path) -> None:
        (write(tmp_path) / "nodes.csv").write_bytes(b"id\n\xc3\xa9\xff\n")
        with pytest.raises(ValueError, match=r"nodes\.csv, line 2: must be text in UTF-8\. Got 'é�'\."):
            load_dataset(tmp_path)

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            (np.ones((3, 2)), r"features\.npz must have one row for each of the 4 nodes\. Got 3\."),
            (np.ones(4), r"features\.npz must hold one array .* Got: an array of 1 dimensions"),
            (np.array([["a"]] * 4), r"features\.npz must hold one array .* type <U1"),
            (
                np.array([[None]] * 4),
                r"features\.npz must hold arrays of numbers or text\. Got: an array of type object",
            ),
        ],
    )
    def test_wrong_features(self, tmp_path: Path, features: np.ndarray, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            load_dataset(write(tmp_path, features=features))

    def test_features_that_point_outside_the_matrix(self, tmp_path: Path) -> None:
        folder = write(tmp_path)
        parts = {"data": np.ones(1), "indices": np.array([99]), "indptr": np.array([0, 1, 1, 1, 1])}
        np.savez(folder / "features.npz", format=np.array(b"csr"), shape=np.array([4, 2]), **parts)
        with pytest.raises(ValueError, match=r"features\.npz must hold one array of numbers or a scipy matrix"):
            load_dataset(folder)

    def test_two_arrays(self, tmp_path: Path) -> None:
        np.savez(write(tmp_path) / "features.npz", a=np.ones((4, 1)), b=np.ones((4, 1)))
        with pytest.raises(ValueError, match=r"Got: 2 arrays, a, b\."):
            load_dataset(tmp_path)

    def test_no_archive_at_all(self, tmp_path: Path) -> None:
        (write(tmp_path) / "features.npz").write_bytes(b"words")
        with pytest.raises(
            ValueError, match=r"features\.npz must hold arrays of numbers or text\. Got: File is not a zip"
        ):
            load_dataset(tmp_path)

    def test_features_in_two_places(self, tmp_path: Path) -> None:
        write(tmp_path, "id,age\na,1\n", "source,target\n", features=np.ones((1, 1)))
        with pytest.raises(ValueError, match=r"either in features\.npz or in columns of nodes\.csv .* Got both: age\."):
            load_dataset(tmp_path)

    def test_labels_in_two_places_or_of_one_column(self, tmp_path: Path) -> None:
        np.savez(write(tmp_path) / "labels.npz", np.ones((4, 2)))
        with pytest.raises(
            ValueError, match=r"either in labels\.npz or in the column label of nodes\.csv\. Got both\."
        ):
            load_dataset(tmp_path)
        np.savez(write(tmp_path, "id\na\n", "source,target\n") / "labels.npz", np.ones((1, 1)))
        with pytest.raises(ValueError, match=r"labels\.npz must have at least two columns, one per label\. Got 1\."):
            load_dataset(tmp_path)

    def test_an_unknown_option(self, tmp_path: Path) -> None:
        with pytest.raises(
            ValueError,
            match=r"must be one of nodes, .*undirected, task, seed\. Got undirect \(the nearest is undirected\)",
        ):
            load_dataset(write(tmp_path), undirect=True)

    def test_two_tables_of_the_same(self, tmp_path: Path) -> None:
        write(tmp_path)
        (tmp_path / "nodes.parquet").touch()
        with pytest.raises(ValueError, match=r"must hold one table of nodes\. Got nodes\.csv, nodes\.parquet\."):
            load_dataset(tmp_path)


def write_files(folder: Path, **files: str) -> Path:
    for name, text in {"nodes": THREE, **files}.items():
        path = folder / f"{name}.csv".replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("prefix", ["edges_", "edges-", "edges__"])
def test_files_are_edge_types(tmp_path: Path, prefix: str):
    files = {f"{prefix}follows": "source,target\na,b\n", f"{prefix}writes": "source,target,weight\nb,c,0.5\n"}
    data = gpnn.load_dataset(write_files(tmp_path, **files))
    assert data.edge_type_names == ["follows", "writes"]
    assert (data.edge_type.tolist(), data.edge_index.tolist()) == ([0, 1], [[0, 1], [1, 2]])
    assert data.edge_weight.tolist() == [1.0, 0.5]  # as HeteroData has it
    assert "the 2 files of edges are edge types: follows, writes" in data.notes


def test_later_tables_may_lack_a_type(tmp_path: Path):
    first = write_files(tmp_path, edges_follows="source,target\na,b\n", edges_writes="source,target\nb,c\n")
    vocabulary = gpnn.load_dataset(first).vocabulary
    (first / "edges_follows.csv").unlink()
    later = gpnn.load_dataset(first, vocabulary=vocabulary)
    assert (later.edge_type.tolist(), later.edge_type_names) == ([1], ["follows", "writes"])


def test_numbered_files_and_files_with_types_are_one_table(tmp_path: Path):
    data = gpnn.load_dataset(write_files(tmp_path, edges_0="source,target\na,b\n", edges_1="source,target\nb,c\n"))
    assert data.get("edge_type") is None
    other = tmp_path / "other"
    other.mkdir()
    write_files(other, edges_may="source,target,type\na,b,x\n", edges_june="source,target,type\nb,c,y\n")
    assert gpnn.load_dataset(other).edge_type_names == ["x", "y"]
    assert file_types([Path("part-00000-ab.snappy.parquet"), Path("part-00001-ab.snappy.parquet")]) is None


def test_files_must_agree(tmp_path: Path):
    write_files(tmp_path, edges_a="source,target\na,b\n", edges_b="source,to\nb,c\n")
    with pytest.raises(ValueError, match=r"edges_a\.csv must have a column to\."):
        gpnn.load_dataset(tmp_path)
    write_files(tmp_path, edges_b="source,target\nb,zoe\n")
    with pytest.raises(
        ValueError, match=r"edges_b\.csv, line 2, column target: must be an id of nodes\.csv. Got 'zoe'"
    ):
        gpnn.load_dataset(tmp_path)
    write_files(tmp_path, edges__c="source,target\na,b\n")
    with pytest.raises(ValueError, match=r"either in files edges_\* or in a folder edges\. Got both\."):
        gpnn.load_dataset(tmp_path)


def test_patterns_and_folders_may_be_given(tmp_path: Path):
    write_files(tmp_path, links_x="source,target\na,b\n", links_y="source,target\nb,c\n")
    data = gpnn.load_dataset(tmp_path, nodes="nodes.csv", edges="links_*.csv")
    assert data.edge_type_names == ["links_x", "links_y"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_conversion_reads_the_same(tmp_path: Path, suffix: str):
    import gzip

    write_files(tmp_path, edges_follows="Source;Target;weight\na;b;0,5\n", edges_writes="source;target;weight\nb;c;2\n")
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
        write_files(tmp_path, edges=self.EDGES)
        sentence = r"edges\.csv may have the columns .* \(data\.ignore=since leaves it out, data\.weight=since makes it"
        with pytest.raises(ValueError, match=sentence):
            gpnn.load_dataset(tmp_path)
        data = gpnn.load_dataset(tmp_path, ignore="since", weight="amount")
        assert data.edge_weight.tolist() == [1.0, 3.0]

    def test_edge_features(self, tmp_path: Path):
        write_files(tmp_path, edges=self.EDGES)
        data = gpnn.load_dataset(tmp_path, edge_features="since,amount")
        assert data.edge_attr.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
        both = gpnn.load_dataset(tmp_path, edge_features="since,amount", undirected=True)
        assert both.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        assert both.edge_attr[:, 0].tolist() == [-1.0, -1.0, 1.0, 1.0]
        kept = Vocabulary.from_mapping(data.vocabulary.to_mapping())
        write_files(tmp_path, edges="source,target,since,amount\na,b,2020-01-02,4\n")
        assert gpnn.load_dataset(tmp_path, vocabulary=kept).edge_attr.tolist() == [[0.0, 2.0]]

    def test_a_single_feature_is_not_the_weight(self, tmp_path: Path):
        write_files(tmp_path, edges="source,target,amount\na,b,1\nb,c,3\n")
        data = gpnn.load_dataset(tmp_path, edge_features="amount")
        assert gpnn.Graph.from_data(data).edge_weight.tolist() == [1.0, 1.0]

    def test_a_convolution_takes_them(self, tmp_path: Path):
        from torch_geometric.nn import GATConv

        edges = self.EDGES + "c,b,2020-01-02,9\n"
        data = gpnn.load_dataset(write_files(tmp_path, edges=edges), edge_features="since,amount")
        conv = gpnn.nn.Scheduled(GATConv(4, 4, edge_dim=2, add_self_loops=False))
        plan = gpnn.lower(data, gpnn.schedule.synchronous(data, rounds=1))
        state = torch.eye(3, 4)
        assert not conv(state, plan, edge_attr=data.edge_attr).equal(conv(state, plan, edge_attr=0 * data.edge_attr))
