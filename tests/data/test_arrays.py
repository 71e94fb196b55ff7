from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow
import pytest
import scipy.sparse
import torch
from pyarrow import parquet
from torch_geometric.data import Data

import gpnn
from gpnn.data.arrays import data_from_arrays, encode_labels, hold_out, kind_of_frame, to_frame
from tests.data.tables.example import EDGES, NODES, write

NAN = float("nan")
PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    "adjacency", [PATH, PATH.tolist(), scipy.sparse.csr_matrix(PATH), networkx.path_graph(3), torch.tensor(PATH)]
)
def test_any_adjacency(adjacency):
    data, classes = data_from_arrays(np.eye(3), [4, -1, 2], adjacency)
    assert sorted(zip(*data.edge_index.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert data.x.dtype == torch.float32
    assert (data.y.tolist(), classes.tolist(), data.train_mask.tolist()) == ([1, -1, 0], [2, 4], [True, False, True])


def test_sparse_features_stay_sparse():
    data, _ = data_from_arrays(scipy.sparse.eye(3, format="coo"), None, PATH)
    assert data.x.layout == torch.sparse_csr
    assert data.get("y") is None


@pytest.mark.parametrize(
    ("labels", "numbers", "classes"),
    [
        ([1.0, -1.0, 0.0], [1, -1, 0], [0.0, 1.0]),
        (["b", "-1", "a"], [1, -1, 0], ["a", "b"]),
        (np.array(["b", None, -1, "a"], object), [1, -1, -1, 0], ["a", "b"]),
        (["b", NAN, "", " ", "NaN", "a"], [1, -1, -1, -1, -1, 0], ["a", "b"]),
        (np.array(["b", NAN, "", "a"], object), [1, -1, -1, 0], ["a", "b"]),
        ([3.0, NAN, 1.0], [1, -1, 0], [1.0, 3.0]),
        (np.array([3, None, NAN, 1], object), [1, -1, -1, 0], [1, 3]),
        ([True, False], [1, 0], [False, True]),
    ],
)
def test_labels_of_any_kind(labels, numbers, classes):
    encoded, found = encode_labels(labels)
    assert (encoded.tolist(), found.tolist()) == (numbers, classes)


@pytest.mark.parametrize("make", [np.array, scipy.sparse.csr_matrix])
def test_complex_numbers_are_no_features(make):
    with pytest.raises(ValueError, match=r"`X` must hold numbers; .*\. Got complex numbers, complex128\."):
        data_from_arrays(make(np.eye(3) * 1j), [0, 1, 0], PATH)


def test_mistakes_name_the_lengths():
    with pytest.raises(ValueError, match="Arrays must come with `adjacency`"):
        data_from_arrays(np.eye(3), [0, 1, 0], None)
    with pytest.raises(ValueError, match=r"`X` must have one row for each of the 3 nodes. Got 2."):
        data_from_arrays(np.eye(2), [0, 1, 0], PATH)
    with pytest.raises(ValueError, match=r"`y` must have one label for each of the 3 nodes. Got 2."):
        data_from_arrays(np.eye(3), [0, 1], PATH)


def test_validation_nodes_are_held_out_of_the_training_nodes():
    data = Data(y=torch.tensor([0] * 10 + [1] * 10 + [-1] * 5), num_nodes=25)
    held = hold_out(data, 0.2, seed=0)
    assert (int(held.train_mask.sum()), int(held.val_mask.sum())) == (16, 4)
    assert held.y[held.val_mask].bincount().tolist() == [2, 2]
    assert not (held.train_mask & held.val_mask).any()
    assert data.get("train_mask") is None
    assert torch.equal(hold_out(data, 0.2, seed=0).val_mask, held.val_mask)


def test_a_validation_mask_that_is_there_is_kept():
    mask = torch.tensor([True, False])
    data = Data(y=torch.tensor([0, 1]), train_mask=mask, val_mask=~mask)
    assert torch.equal(hold_out(data, 0.5, seed=0).val_mask, ~mask)
    assert hold_out(Data(y=torch.tensor([0, 1])), 0.0, seed=0).get("val_mask") is None


def test_several_labels_a_node():
    y = np.array([[1, 0], [-1, -1], [1, 1]])
    data, classes = data_from_arrays(np.eye(3), y, PATH)
    assert data.y.tolist() == y.tolist()
    assert (classes.tolist(), data.train_mask.tolist(), data.num_classes) == ([0, 1], [True, False, True], 2)


def test_validation_nodes_of_several_labels():
    y = torch.cat([torch.zeros(8, 2), torch.ones(2, 2), torch.full((3, 2), -1.0)])
    held = hold_out(Data(y=y, num_nodes=13), 0.2, seed=0)
    assert (int(held.train_mask.sum()), int(held.val_mask.sum())) == (8, 2)
    assert not (held.train_mask | held.val_mask)[10:].any()


def test_a_column_of_labels_is_one_label_a_node():
    assert encode_labels(np.array([[2], [-1], [0]]))[0].tolist() == [1, -1, 0]


def test_real_numbers_are_no_classes():
    for labels in ([0.5, 1.5, 2.0], np.array([0.5, None, 2.0], object), ["0.5", "nan", "2"]):
        with pytest.raises(ValueError, match=r"`y` must hold classes, .*GPNNRegressor.*\. Got [12] different numbers"):
            encode_labels(labels)


class ReadOnly:
    """What numpy makes of it cannot be written, as with pandas."""

    def __init__(self, values):
        self.values = np.array(values)
        self.values.flags.writeable = False

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype, copy=False)


def test_arrays_that_may_not_be_written_are_taken_without_a_warning():
    """torch would warn of a tensor over them; warnings are errors in these tests."""
    x = ReadOnly(np.asfortranarray(np.eye(3, dtype=np.float32)))
    data, _ = data_from_arrays(x, ReadOnly([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ReadOnly(PATH).values)
    data.x += 1
    assert x.values.tolist() == np.eye(3).tolist()
    assert data_from_arrays(x, ReadOnly([0, 1, -1]), PATH)[0].y.tolist() == [0, 1, -1]
    assert data_from_arrays(np.eye(3)[::-1], None, PATH)[0].x.tolist() == np.eye(3)[::-1].tolist()


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"size": [1.0, 2.0, 3.0], "age": [4.0, 5.0, 6.0]})
    for labels in (["a", None, "b"], ["a", NAN, "b"], pandas.array([0, None, 1], "Int64"), [0.0, NAN, 1.0]):
        data, classes = data_from_arrays(x, pandas.Series(labels), PATH)
        assert data.y.tolist() == [0, -1, 1]
        assert len(classes) == 2


class Stream:
    """A frame of an unknown package that speaks Arrow's C stream."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.table = pyarrow.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Relation:
    """A frame that only knows how to become a pyarrow table."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.to_arrow_table = lambda: pyarrow.table(columns)


def of_package(name: str) -> Callable[[dict[str, Any]], Any]:
    package = pytest.importorskip(name, reason=f"{name} is not installed")
    return package.from_arrow if name == "duckdb" else package.DataFrame


FRAMES: dict[str, Callable[[], Callable[[dict[str, Any]], Any]]] = {
    "pyarrow": lambda: pyarrow.table,
    "stream": lambda: Stream,
    "relation": lambda: Relation,
    "pandas": lambda: of_package("pandas"),
    "polars": lambda: of_package("polars"),
    "duckdb": lambda: lambda columns: of_package("duckdb")(pyarrow.table(columns)),
}


@pytest.fixture(params=FRAMES)
def make(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    return FRAMES[request.param]()


def test_every_kind_of_frame_is_the_folder_of_its_tables(make, tmp_path: Path):
    nodes = NODES | {"city": ["Oslo", "Rome", "Oslo"]}
    write(tmp_path / "nodes.csv", nodes)
    write(tmp_path / "edges.csv", EDGES)
    expected = gpnn.load_dataset(tmp_path, seed=3, undirected=True)
    data = gpnn.from_frames(make(nodes), make(EDGES), seed=3, undirected=True)
    for name in ("x", "y", "edge_index", "edge_type", "edge_weight", "train_mask", "val_mask", "test_mask"):
        assert data[name].equal(expected[name]), name
    assert data.node_name.tolist() == expected.node_name.tolist()
    assert data.vocabulary == expected.vocabulary
    assert data.notes == expected.notes
    assert data.frame_kind == kind_of_frame(make(nodes))


def test_an_answer_is_a_frame_of_the_kind_that_came_in(make):
    frame = make(NODES)
    kind = kind_of_frame(frame)
    answer = to_frame(pyarrow.table(NODES), kind)
    assert kind_of_frame(answer) == kind
    assert list(gpnn.data.arrays.to_arrow("nodes", answer).column("id").to_pylist()) == NODES["id"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (["red", None, ""], [0, -1, -1]),
        ([7, None, 9], [0, -1, 1]),
        ([0.0, float("nan"), 1.0], [0, -1, 1]),
        ([None, "nan", "red"], [-1, -1, 0]),
        ([-1, 0, 1], [-1, 0, 1]),
    ],
)
def test_a_label_that_is_none_nan_or_empty_is_unlabelled(make, label, expected):
    data = gpnn.from_frames(make({"id": [0, 1, 2], "label": label}), make({"source": [0], "target": [1]}))
    assert data.y.tolist() == expected


def test_columns_by_other_names_are_named_as_the_user_does():
    nodes = pyarrow.table({"user": ["ann", "bob"], "hobby": ["chess", "choir"]})
    edges = pyarrow.table({"to": ["ann", "zoe"], "from": ["bob", "bob"]})
    names = {"id": "user", "source": "from", "target": "to", "label": "hobby"}
    assert gpnn.from_frames(nodes, edges.slice(0, 1), **names).edge_index.tolist() == [[1], [0]]
    with pytest.raises(ValueError, match=r"^edges, row 1 \(from 0\), column to: must be an id of nodes\. Got 'zoe'\.$"):
        gpnn.from_frames(nodes, edges, **names)
    with pytest.raises(ValueError, match=r"^edges must have a column start\. Got to, from\.$"):
        gpnn.from_frames(nodes, edges, **names | {"source": "start"})
    both = nodes.append_column("id", [["1", "2"]])
    with pytest.raises(ValueError, match=r"^nodes must not have a column id where it is called user\. Got both\.$"):
        gpnn.from_frames(both, edges, **names)


def test_frames_of_edges_are_edge_types(make):
    nodes = make({"id": ["a", "b"]})
    edges = {
        "likes": make({"from": ["a"], "target": ["b"]}),
        "knows": make({"from": ["b"], "target": ["a"], "weight": [0.5]}),
    }
    data = gpnn.from_frames(nodes, edges, source="from")
    assert (data.edge_type_names, data.edge_type.tolist()) == (["knows", "likes"], [1, 0])
    assert data.edge_weight.tolist() == [1.0, 0.5]
    one = gpnn.from_frames(nodes, {"knows": edges["knows"]}, data.vocabulary, source="from")
    assert one.edge_type.tolist() == [0]
    with pytest.raises(ValueError, match=r"edges of likes must have a column start\. Got from, target\."):
        gpnn.from_frames(nodes, edges, source="start")
    with pytest.raises(ValueError, match=r"`edges` must hold at least one frame\. Got an empty dictionary\."):
        gpnn.from_frames(nodes, {})


def test_ends_may_be_called_by_each_others_names():
    edges = pyarrow.table({"source": ["b"], "target": ["a"]})
    assert gpnn.from_frames(None, edges, source="target", target="source").edge_index.tolist() == [[0], [1]]


def test_columns_may_be_listed():
    nodes = pyarrow.table({"id": [0, 1], "zip": [10, 20], "name": ["a", "b"], "x": [1.0, 2.0]})
    data = gpnn.from_frames(nodes, pyarrow.table({"source": [0], "target": [1]}), categorical=["zip"], ignore=("name",))
    assert data.feature_names == ["zip=10", "zip=20", "x"]


def test_later_frames_keep_the_meaning_of_the_first():
    edges = pyarrow.table({"source": [0], "target": [1]})
    first = gpnn.from_frames(pyarrow.table({"id": [0, 1], "age": [1.0, 3.0], "label": ["a", "b"]}), edges)
    later = gpnn.from_frames(pyarrow.table({"id": [0, 1], "age": [5.0, 3.0]}), edges, first.vocabulary)
    assert later.x.tolist() == [[3.0], [1.0]]
    assert later.vocabulary.columns == first.vocabulary.columns


def test_what_is_no_frame_is_refused():
    edges = pyarrow.table({"source": [0], "target": [1]})
    with pytest.raises(
        ValueError, match=r"`nodes` must be a data frame of pandas, polars, pyarrow or DuckDB\. Got list"
    ):
        gpnn.from_frames([1], edges)


def test_columns_of_any_type_can_be_ignored(make, tmp_path):
    """A list, a duration: they were refused though they were to be ignored."""
    nodes, edges = {"id": [0, 1], "tags": [[1], [2]], "age": [3, 4]}, {"source": [0], "target": [1], "when": [[0]]}
    with pytest.raises(
        ValueError, match=r"^nodes, column tags: must hold text or numbers \(ignore='tags' leaves .* Got"
    ):
        gpnn.from_frames(make(nodes), make(edges), ignore="when")
    with pytest.raises(
        ValueError, match=r"^edges, column when: must hold text or numbers \(ignore='when' leaves .* Got"
    ):
        gpnn.from_frames(make(nodes), make(edges), ignore="tags")
    assert gpnn.from_frames(make(nodes), make(edges), ignore="Tags,when").feature_names == ["age"]
    parts = {"likes": make(edges), "knows": make(edges)}
    assert gpnn.from_frames(make(nodes), parts, ignore=["tags", "when"]).num_edges == 2
    for name, table in (("nodes", nodes), ("edges", edges)):
        parquet.write_table(pyarrow.table(table), tmp_path / f"{name}.parquet")
    with pytest.raises(
        ValueError, match=r"^nodes\.parquet, column tags: .* \(data\.ignore=tags leaves it out\)\. Got list"
    ):
        gpnn.load_dataset(tmp_path, ignore="when")
    assert gpnn.load_dataset(tmp_path, ignore="tags,when").feature_names == ["age"]


def test_hints_name_arguments():
    """In Python an option is an argument, not a setting of the command line."""
    nodes = pyarrow.table({"id": ["a", "b"], "size": ["XL", "38"], "club": ["x", "y"]})
    edges = pyarrow.table({"von": ["a"], "nach": ["b"]})
    with pytest.raises(
        ValueError, match=r"^edges must have a column source \(source='NAME' takes another for it\)\. Got von"
    ):
        gpnn.from_frames(nodes, edges)
    ends = {"source": "von", "target": "nach"}
    with pytest.raises(
        ValueError, match=r"column size: must be .* \(categorical='size' makes all of them categories\)"
    ):
        gpnn.from_frames(nodes, edges, **ends)
    with pytest.raises(ValueError, match=r"^nodes must have a column klub\. Got id, size, club\.$"):
        gpnn.from_frames(nodes, edges, label="klub", **ends)
    both = edges.append_column("source", [["b"]])
    assert gpnn.from_frames(nodes, both, categorical="size", ignore="source", **ends).edge_index.tolist() == [[0], [1]]


class TestPandas:
    @pytest.fixture
    def pandas(self) -> Any:
        return pytest.importorskip("pandas", reason="pandas is not installed")

    def test_an_index_with_a_name_is_a_column_and_another_is_left_out(self, pandas):
        frame, edges = pandas.DataFrame(NODES), pandas.DataFrame(EDGES)
        assert gpnn.from_frames(frame.set_index("id"), edges).node_name.tolist() == NODES["id"]
        turned = gpnn.from_frames(frame.iloc[::-1], edges)
        assert turned.node_name.tolist() == NODES["id"][::-1]
        assert turned.feature_names == ["age"]

    def test_categories_and_objects(self, pandas):
        frame = pandas.DataFrame(NODES | {"city": pandas.Categorical(["Oslo", None, "Rome"])})
        frame["label"] = pandas.Series(["red", pandas.NA, float("nan")], dtype=object)
        data = gpnn.from_frames(frame, pandas.DataFrame(EDGES))
        assert data.feature_names == ["age", "city=Oslo", "city=Rome"]
        assert data.y.tolist() == [0, -1, -1]

    def test_integers_of_more_than_64_bits_are_refused(self, pandas):
        nodes = pandas.DataFrame({"id": ["a", "b"], "size": [10**30, 1]})
        with pytest.raises(ValueError, match=r"^`nodes` must be a frame of columns with one type .*too large"):
            gpnn.from_frames(nodes, pandas.DataFrame({"source": ["a"], "target": ["b"]}))

    def test_a_column_that_mixes_types_is_named(self, pandas):
        frame = pandas.DataFrame(NODES | {"odd": [1, "a", 2]})
        with pytest.raises(ValueError, match=r"a frame of columns with one type .* each \(.*\)\. Got: .*column odd"):
            gpnn.from_frames(frame, pandas.DataFrame(EDGES))
        assert gpnn.from_frames(frame, pandas.DataFrame(EDGES), ignore="odd").feature_names == ["age"]


class TestPolars:
    def test_categories_and_lazy_frames(self):
        polars = pytest.importorskip("polars", reason="polars is not installed")
        frame = polars.LazyFrame(NODES | {"city": ["Oslo", None, "Rome"]})
        frame = frame.with_columns(polars.col("city").cast(polars.Categorical))
        data = gpnn.from_frames(frame, polars.LazyFrame(EDGES))
        assert data.feature_names == ["age", "city=Oslo", "city=Rome"]
        assert data.frame_kind == "polars"
