"""Answers as frames: the user's ids, order, classes and kind of frame."""

import numpy as np
import pyarrow
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import gpnn
from gpnn import GPNNClassifier, GPNNRegressor
from gpnn.data.arrays import kind_of_frame, to_frame
from gpnn.train.notes import NoteWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")
NAMES = {"id": "user", "undirected": True}
ORDER = np.random.default_rng(1).permutation(24)


def people(**further: object) -> pyarrow.Table:
    group = ORDER % 2
    hobby = [None if number % 4 == 3 else ("chess", "choir")[side] for number, side in zip(ORDER, group)]
    columns = {"user": [f"u{number}" for number in ORDER], "label": hobby, "age": 20.0 + 30 * group + ORDER % 5}
    return pyarrow.table(columns | {"city": [("Oslo", "Rome")[side] for side in group]} | further)


def friends() -> pyarrow.Table:
    return pyarrow.table({"source": [f"u{i}" for i in range(22)], "target": [f"u{i + 2}" for i in range(22)]})


@pytest.fixture(scope="module")
def data() -> Data:
    return gpnn.from_frames(people(), friends(), **NAMES)


@pytest.fixture(scope="module")
def fitted(data: Data) -> GPNNClassifier:
    return GPNNClassifier(hidden_channels=8, epochs=3, k=2).fit(data)


def test_the_answer_is_in_the_users_ids_order_and_classes(fitted, data):
    answer = fitted.predict_frame(data)
    first = ["node", "prediction", "confidence", "second", "margin", "labelled", "label", "split"]
    assert answer.column_names == [*first, "p_chess", "p_choir"]
    assert answer["node"].to_pylist() == people()["user"].to_pylist()
    assert answer["label"].to_pylist() == people()["label"].to_pylist()
    expected = np.array(["chess", "choir"])[fitted.predict(data)]
    assert answer["prediction"].to_pylist() == expected.tolist()
    proba = np.stack([answer["p_chess"].to_numpy(), answer["p_choir"].to_numpy()], 1)
    assert proba == pytest.approx(fitted.predict_proba(data))


def test_a_saved_classifier_reads_later_frames_as_its_own(fitted, data, tmp_path):
    fitted.save(tmp_path / "saved")
    loaded = GPNNClassifier.load(tmp_path / "saved")
    assert loaded.vocabulary_ == data.vocabulary
    unlabelled = people().drop_columns(["label"]).take(list(range(23, -1, -1)))
    later = gpnn.from_frames(unlabelled, friends(), loaded.vocabulary_, **NAMES)
    answer = loaded.predict_frame(later)
    assert answer["node"].to_pylist() == people()["user"].to_pylist()[::-1]
    expected = fitted.predict_frame(data)["p_chess"].to_numpy()[::-1]
    assert answer["p_chess"].to_numpy() == pytest.approx(expected, abs=1e-6)


def test_embeddings_stay_with_their_nodes_in_a_graph_that_has_grown():
    nodes = people().select(["user", "label"])
    data = gpnn.from_frames(nodes, friends(), **NAMES)
    fitted = GPNNClassifier(hidden_channels=8, epochs=3, k=2).fit(data)
    before = fitted.predict_frame(data)
    # u99 comes first, between two known nodes; the others stand in another order
    grown = pyarrow.table({"user": ["u99", *nodes["user"].to_pylist()[::-1]]})
    further = pyarrow.table({"source": ["u99", "u99"], "target": ["u22", "u23"]})
    edges = pyarrow.concat_tables([friends(), further])
    answer = fitted.predict_frame(gpnn.from_frames(grown, edges, fitted.vocabulary_, **NAMES))
    assert answer["node"].to_pylist() == grown["user"].to_pylist()
    far = [node in ("u0", "u1", "u2", "u3") for node in nodes["user"].to_pylist()]  # beyond the reach of the new edges
    expected, found = before["p_chess"].to_numpy()[far], answer["p_chess"].to_numpy()[1:][::-1][far]
    assert found == pytest.approx(expected, abs=1e-6)
    assert fitted.predict_frame(data).equals(before)


def test_a_column_with_another_meaning_is_refused(fitted):
    other = gpnn.from_frames(people(age=np.arange(24.0)), friends(), **NAMES)
    with pytest.raises(ValueError, match=r"vocabulary=classifier\.vocabulary_.* Got other columns"):
        fitted.predict_frame(other)


def test_numbers_come_with_their_interval():
    data = gpnn.from_frames(people(label=ORDER * 1.5), friends(), **NAMES)
    answer = GPNNRegressor(hidden_channels=8, epochs=3, k=2).fit(data).predict_frame(data)
    assert answer.column_names[:4] == ["node", "prediction", "low", "high"]


def test_pandas_is_answered_by_pandas(fitted, data):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    own = gpnn.from_frames(people().to_pandas(), friends().to_pandas(), **NAMES)
    answer = fitted.predict_frame(own)
    assert isinstance(answer, pandas.DataFrame)
    assert answer["prediction"].tolist() == fitted.predict_frame(data)["prediction"].to_pylist()


def test_arrays_are_numbered_and_keep_the_names_of_their_classes():
    x, y = np.eye(6, dtype=np.float32), np.array(["a", "b", "a", "b", "a", "b"])
    chain = np.eye(6, k=1) + np.eye(6, k=-1)
    fitted = GPNNClassifier(hidden_channels=4, epochs=2, k=2, validation_fraction=0).fit(x, y, adjacency=chain)
    answer = fitted.predict_frame(x, adjacency=chain)
    assert answer["node"].to_pylist() == list(range(6))
    assert answer["prediction"].to_pylist() == fitted.predict(x, adjacency=chain).tolist()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "duckdb"])
def test_columns_of_a_frame_beside_an_adjacency_are_read_as_tables_are(kind):
    people = {"age": [1.0, None, 3.0, 1.0, 2.0, 3.0], "city": ["Oslo", "Rome"] * 3}
    frame = to_frame(pyarrow.table(people), kind)
    chain, y = np.eye(6, k=1) + np.eye(6, k=-1), ["a", "b"] * 3
    fitted = GPNNClassifier(hidden_channels=4, epochs=2, k=2, validation_fraction=0).fit(frame, y, adjacency=chain)
    assert fitted.vocabulary_.feature_names == ["age", "age is missing", "city=Oslo", "city=Rome"]
    answer = fitted.predict_frame(frame, adjacency=chain)
    assert kind_of_frame(answer) == kind
    later = to_frame(pyarrow.table({"city": ["Rome"] * 5 + ["Lima"], "age": [1.0] * 6}), kind)  # no gaps
    with pytest.warns(NoteWarning, match=r"column city: 1 unseen categories \('Lima'\) count as unknown"):
        assert fitted.predict(later, adjacency=chain).shape == (6,)
    with pytest.raises(ValueError, match=r"^X must have a column age\. Got city\.$"):
        fitted.predict(to_frame(pyarrow.table({"city": ["Rome"] * 6}), kind), adjacency=chain)
    with pytest.raises(ValueError, match=r"`X` must have one row for each of the 5 nodes\. Got 6\."):
        fitted.predict(frame, adjacency=np.eye(5))


def test_text_in_x_names_its_column_and_the_way_out():
    numbers = pyarrow.table({"age": [1.0, 2.0], "city": [3.0, 4.0]})
    fitted = GPNNClassifier(hidden_channels=4, epochs=1, k=1).fit(numbers, [0, 1], adjacency=np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"`gpnn\.from_frames` makes features .* Got 'Oslo' in column 'city'\.$"):
        fitted.predict(pyarrow.table({"age": [1.0, 2.0], "city": ["3", "Oslo"]}), adjacency=np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"`X` must hold numbers; .* Got could not convert string to float: 'a'\.$"):
        GPNNClassifier().fit([["a"]], [0], adjacency=np.zeros((1, 1)))


def test_a_hetero_graph_names_the_type_of_each_node():
    shop = HeteroData({"user": {"x": torch.rand(6, 2), "y": torch.tensor([0, 1] * 3)}, "item": {"x": torch.ones(2, 3)}})
    shop["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2, 3], [0, 1, 0, 1]])
    classifier = GPNNClassifier(recipe="spread", epochs=1).fit(shop)
    assert classifier.predict_frame(shop)["node_type"].to_pylist() == ["user"] * 6 + ["item"] * 2
