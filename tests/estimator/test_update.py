"""Estimators follow a graph that changes, through frames and arrays."""

import pickle

import networkx
import numpy as np
import pyarrow
import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier, GPNNRegressor
from gpnn.train.notes import NoteWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")
SMALL = {"recipe": "spread", "epochs": 3, "k": 2, "rounds": 1}


def ring(size: int = 40) -> Data:
    rng = np.random.default_rng(0)
    src = torch.arange(size)
    edges = torch.stack([torch.cat([src, (src + 1) % size]), torch.cat([(src + 1) % size, src])])
    y = torch.arange(size) % 2
    x = torch.from_numpy(rng.normal(size=(size, 3)).astype(np.float32)) + y[:, None]
    return Data(x=x, edge_index=edges, y=y, num_nodes=size, train_mask=torch.arange(size) < 20)


def test_arrays_come_and_go():
    data = ring()
    classifier = GPNNClassifier(**SMALL).fit(data)
    new = np.ones((2, 3), np.float32)
    found = classifier.update(new, [[40, 3, 41], [3, 40, 40]])
    assert set(found["node"].to_pylist()) < set(range(42))
    grown = Data(
        x=torch.cat([data.x, torch.from_numpy(new)]),
        edge_index=torch.cat([data.edge_index, torch.tensor([[40, 3, 41], [3, 40, 40]])], 1),
        num_nodes=42,
    )
    shown, wanted = classifier.predict_frame(), classifier.predict_proba(grown)
    assert shown["node"].to_pylist() == list(range(42))
    assert shown["p_0"].to_numpy() == pytest.approx(wanted[:, 0], abs=1e-6)
    classifier.update(removed_nodes=[40, 41])
    assert classifier.predict_frame()["p_0"].to_numpy() == pytest.approx(classifier.predict_proba(data)[:, 0], abs=1e-6)
    assert classifier.update(new[:1])["node"].to_pylist() == [42]  # numbers are not used twice
    changed = classifier.update(data.x[:1].numpy() + 5, ids=[0])["node"].to_pylist()
    assert 0 in changed
    assert 20 not in changed


def test_frames_are_read_with_the_meaning_learnt():
    people = pyarrow.table(
        {"id": [f"u{i}" for i in range(24)], "label": ["a", "b"] * 12, "age": range(24), "city": ["Oslo", "Rome"] * 12}
    )
    knows = pyarrow.table({"from": [f"u{i}" for i in range(22)], "to": [f"u{i + 2}" for i in range(22)]})
    names = {"source": "from", "target": "to"}
    classifier = GPNNClassifier(**SMALL).fit(gpnn.from_frames(people, knows, **names, undirected=True))
    new = pyarrow.table({"id": ["u99", "u3"], "age": [7, 70], "city": ["Rome", "Oslo"]})
    edge = pyarrow.table({"from": ["u99"], "to": ["u5"]})
    found = classifier.update(new, edge, removed_edges=knows.slice(10, 1), **names)
    assert "u99" in found["node"].to_pylist()
    rows = {row["id"]: row for row in [*people.drop_columns("label").to_pylist(), *new.to_pylist()]}
    later = pyarrow.concat_tables([knows.slice(0, 10), knows.slice(11), edge])
    whole = gpnn.from_frames(
        pyarrow.Table.from_pylist(list(rows.values())), later, classifier.vocabulary_, **names, undirected=True
    )
    wanted = classifier.predict_frame(whole)
    shown = classifier.predict_frame()
    assert shown["node"].to_pylist() == wanted["node"].to_pylist()
    assert shown["p_a"].to_numpy() == pytest.approx(wanted["p_a"].to_numpy(), abs=1e-6)
    with pytest.raises(ValueError, match=r"must have a column city"):
        classifier.update(new.drop_columns("city"), **names)
    assert classifier.predict_frame().equals(shown)


def test_edges_of_a_graph_that_was_read_both_ways_come_both_ways():
    graph = networkx.cycle_graph(12)
    networkx.set_node_attributes(graph, {node: "ab"[node % 2] for node in graph}, "label")
    networkx.set_node_attributes(graph, {node: float(node) for node in graph}, "age")
    classifier = GPNNClassifier(**SMALL).fit(gpnn.load_dataset(graph))
    classifier.update(edges=[[0], [6]])
    graph.add_edge(0, 6)
    wanted = classifier.predict_frame(gpnn.load_dataset(graph))
    assert classifier.predict_frame()["p_a"].to_numpy() == pytest.approx(wanted["p_a"].to_numpy(), abs=1e-6)


def test_a_loaded_estimator_needs_the_graph(tmp_path):
    data = ring()
    GPNNClassifier(**SMALL).fit(data).save(tmp_path / "saved")
    loaded = GPNNClassifier.load(tmp_path / "saved")
    with pytest.raises(ValueError, match=r"`graph` must be the graph before the change"):
        loaded.update(removed_nodes=[3])
    found = loaded.update(removed_nodes=[3], graph=data)
    assert 3 not in found["node"].to_pylist()
    assert {2, 4} <= set(found["node"].to_pylist())


def test_neither_graph_nor_states_are_pickled():
    classifier = GPNNClassifier(**SMALL).fit(ring(400))
    size = len(pickle.dumps(classifier))
    classifier.update(removed_nodes=[3])
    again = pickle.loads(pickle.dumps(classifier))
    assert len(pickle.dumps(classifier)) == size
    assert (again.predict(ring(400)) == classifier.predict(ring(400))).all()


def test_a_regressor_follows_too():
    data = ring()
    data.y = data.x[:, 0].double()
    regressor = GPNNRegressor(**SMALL).fit(data)
    assert {"prediction", "low", "high"} <= set(regressor.update(removed_nodes=[7]).column_names)


def test_what_sees_the_whole_graph_says_so():
    data = ring()
    classifier = GPNNClassifier(schedule="waves", epochs=2, rounds=1).fit(data)
    with pytest.warns(NoteWarning, match="every update computes all nodes: the schedule waves reaches the whole graph"):
        assert classifier.update(removed_nodes=[3]).num_rows == 39


def test_rows_of_nodes_with_ids_must_be_named():
    people = pyarrow.table({"id": ["a", "b", "c", "d"], "label": ["x", "y", "x", "y"], "age": [1, 2, 3, 4]})
    knows = pyarrow.table({"source": ["a", "b"], "target": ["c", "d"]})
    classifier = GPNNClassifier(**SMALL).fit(gpnn.from_frames(people, knows))
    with pytest.raises(ValueError, match=r"`ids` must name the rows of `nodes`"):
        classifier.update(np.ones((1, 1)))


def test_a_change_has_the_names_and_the_kind_of_the_frames_learnt_from():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    people = pandas.DataFrame(
        {"who": list("abcd"), "age": [1, 2, 3, 4], "club": ["x", "y", "x", None], "tags": [[0]] * 4}
    )
    knows = pandas.DataFrame({"von": list("abc"), "nach": list("bcd")})
    names = {"id": "who", "source": "von", "target": "nach", "label": "club", "ignore": "tags"}
    classifier = GPNNClassifier(recipe="spread", epochs=2).fit(gpnn.from_frames(people, knows, **names))
    new = pandas.DataFrame({"who": ["e"], "age": [5], "tags": [[1]]})
    changed = classifier.update(new, pandas.DataFrame({"von": ["e"], "nach": ["a"]}))
    assert isinstance(changed, pandas.DataFrame)
    assert isinstance(classifier.update(removed_nodes=["b"]), pandas.DataFrame)
    assert classifier.predict_frame()["node"].tolist() == list("acde")
