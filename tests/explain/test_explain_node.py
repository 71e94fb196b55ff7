"""What an explanation names, answered by hand and by deleting everything in turn."""

from copy import copy

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier
from gpnn.data.features import from_scipy
from gpnn.explain import Explained, Explanation, draw_explanation, explain_node, find_node
from gpnn.nn import GPNN
from gpnn.pipeline import Pipeline
from gpnn.train.notes import NoteWarning
from gpnn.train.regression import Regression
from gpnn.train.task import Classification

pytestmark = pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")
TASK = Classification(2)


def plain_model() -> GPNN:
    """Scores are the sum of what arrives: column 0 speaks for class 0, column 1 for class 1."""
    model = GPNN(2, 2, 2, cell="linear", cell_options={"alpha": 0.0}, predict="before", concat="none", readout="last")
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(4 * torch.eye(2) if weight.dim() == 2 else torch.zeros(len(weight)))
    return model


def star() -> Data:
    """Node 0 hears leaf 1, who is sure of class 0, leaf 2, who says nothing, and leaf 3, who is for class 1."""
    edges = torch.tensor([[1, 2, 3, 0, 0, 0], [0, 0, 0, 1, 2, 3]])
    return Data(x=torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.25]]), edge_index=edges, num_nodes=4)


def synchronous(rounds: int = 1) -> Pipeline:
    return Pipeline(schedule="synchronous", rounds=rounds, k=1, normalization="none")


def explain(data, node, task=TASK, **also):
    return explain_node([Explained(plain_model(), data, synchronous(), TASK)], node, task=task, **also)


def test_the_leaf_that_decides_is_named():
    found = explain(star(), 0, classes=["red", "blue"])
    logits = torch.tensor([16.0, 4.0], dtype=torch.float64)
    assert (found.node, found.prediction) == (0, "red")
    assert found.probability == pytest.approx(float(logits.softmax(0)[0]), abs=1e-6)
    without = torch.tensor([0.0, 4.0], dtype=torch.float64).softmax(0)[0]
    effect = pytest.approx(found.probability - float(without), abs=1e-6)
    assert found.edges == ((1, 0, effect),)  # leaf 2 moves nothing, leaf 3 speaks against it
    assert found.neighbours == ((1, effect),)
    assert found.columns == ()  # the node has none


def test_neighbours_who_agree_are_named_together():
    """Of a mean of equals none is missed alone; without all three nothing is left."""
    data = star()
    data.x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    pipeline = Pipeline(schedule="synchronous", rounds=1, k=1, normalization="phase")
    found = explain_node([Explained(plain_model(), data, pipeline, TASK)], 0, task=TASK)
    assert {source for source, _, _ in found.edges} == {1, 2, 3}
    assert [effect for *_, effect in found.edges] == pytest.approx([0, 0, 0], abs=1e-6)
    assert found.together == pytest.approx(found.probability - 0.5, abs=1e-6)
    assert found.rows()[3] == ("edges", "the 3 above together", found.together)
    assert explain_node([Explained(plain_model(), data, pipeline, TASK)], 0, task=TASK, num=2).edges == ()


def test_an_edge_that_speaks_against_the_set_is_not_counted_with_it():
    """Leaves 1 and 2 carry class 0; without leaf 3 as well, nothing would speak for class 1."""
    data = star()
    data.x = torch.tensor([[0.0, 0.0], [0.5, 0.0], [0.5, 0.0], [0.0, 0.25]])
    found = explain(data, 0)
    assert ({source for source, _, _ in found.edges}, found.num_together) == ({1, 2}, 2)
    assert found.rows()[2][1] == "the 2 above together"
    without = torch.tensor([0.0, 4.0], dtype=torch.float64).softmax(0)[0]
    assert found.together == pytest.approx(found.probability - float(without), abs=1e-6)


def test_a_picture_shows_what_is_listed_and_no_markup():
    why = Explanation("<b>", "chess", 0.9, (("bo", "<b>", 0.2), ("z", "bo", 0.1)), (), (("age", 0.1),), 0.3)
    picture = draw_explanation(why)
    for words in ("&lt;b&gt;", "bo → &lt;b&gt;: 20.0 %", "z → bo: 10.0 %", "age"):
        assert words in picture
    assert "<b>" not in picture
    assert draw_explanation(Explanation("a", 1, 1.0, (), (), ())).endswith("</svg>\n")


def test_a_one_way_edge_keeps_its_direction():
    data = star()
    data.edge_index = data.edge_index[:, :3]
    assert explain(data, 0).edges[0][:2] == (1, 0)
    assert explain(data, 1).edges == ()  # none leads to a leaf


def test_the_only_edge_can_go():
    data = Data(x=torch.tensor([[0.0, 0.5], [1.0, 0.0]]), edge_index=torch.tensor([[1], [0]]), num_nodes=2)
    found = explain(data, 0, num=1)
    assert (found.prediction, found.edges[0][:2], found.neighbours[0][0]) == (0, (1, 0), 1)


def test_the_column_that_alone_decides_is_named():
    data = Data(x=torch.tensor([[0.5, 1.0], [0.0, 0.0]]), edge_index=torch.tensor([[0], [0]]), num_nodes=2)
    data.feature_names = ["age", "city=Oslo"]
    for x in (data.x, from_scipy(csr_matrix(data.x.numpy()), sparse=True)):
        data.x = x
        found = explain(data, 0)
        assert found.prediction == 1
        ((name, effect),) = found.columns
        expected = torch.tensor([[8.0, 16.0], [8.0, 0.0]], dtype=torch.float64).softmax(1)[:, 1]
        assert (name, effect) == ("city=Oslo", pytest.approx(float(expected[0] - expected[1]), abs=1e-6))


@pytest.fixture(scope="module")
def data() -> Data:
    options = {"num_nodes": 36, "num_classes": 3, "num_features": 12, "label_rate": 0.3}
    found = gpnn.load_dataset("planted", **options)
    found.x = found.x.to_dense()
    return found


@pytest.fixture(scope="module", params=["spread", "gated", "columns"])
def fitted(request, data) -> GPNNClassifier:
    return GPNNClassifier(recipe=request.param, epochs=8).fit(data)


def probability(classifier: GPNNClassifier, data: Data, node: int) -> np.ndarray:
    return classifier.predict_proba(data)[node]


def without_edge(data: Data, one: int, other: int) -> Data:
    src, dst = data.edge_index
    fewer = copy(data)
    fewer.edge_index = data.edge_index[:, ~(((src == one) & (dst == other)) | ((src == other) & (dst == one)))]
    return fewer


@pytest.mark.thorough
def test_the_effects_are_those_of_deleting_it_from_the_data(fitted, data):
    found = fitted.explain(data, 7, num=2)
    before = probability(fitted, data, 7)
    assert found.prediction == before.argmax()
    assert found.probability == pytest.approx(before.max(), abs=1e-6)
    assert min(len(found.edges), len(found.neighbours), len(found.columns)) > 0
    for source, target, effect in found.edges:
        after = probability(fitted, without_edge(data, source, target), 7)
        assert effect == pytest.approx(before.max() - after[before.argmax()], abs=1e-5)
    for column, effect in found.columns:
        changed = copy(data)
        changed.x = data.x.clone()
        changed.x[7, column] = 0
        after = probability(fitted, changed, 7)
        assert effect == pytest.approx(before.max() - after[before.argmax()], abs=1e-5)


@pytest.mark.thorough
def test_the_first_edge_is_that_of_deleting_every_one(fitted, data):
    found = fitted.explain(data, 7, num=3)
    before = probability(fitted, data, 7)
    pairs = {tuple(sorted(pair)) for pair in data.edge_index.T.tolist()}
    loss = {pair: before.max() - probability(fitted, without_edge(data, *pair), 7)[before.argmax()] for pair in pairs}
    source, target, effect = found.edges[0]
    assert effect == pytest.approx(max(loss.values()), abs=1e-5)
    assert loss[tuple(sorted((source, target)))] == pytest.approx(effect, abs=1e-5)


def test_the_model_is_left_as_it_was(fitted, data):
    before, runner = fitted.predict_proba(data), getattr(fitted.model_, "runner", None)
    fitted.explain(data, 3, num=1)
    assert getattr(fitted.model_, "runner", None) is runner
    assert (fitted.predict_proba(data) == before).all()


def test_nodes_are_found_by_their_ids():
    data = Data(num_nodes=2, edge_index=torch.tensor([[0], [1]]), node_name=["ann", "bob"])
    assert find_node(data, "bob") == 1
    with pytest.raises(ValueError, match=r"`node` must be the id of a node of the graph. Got 'zoe'."):
        find_node(data, "zoe")


@pytest.mark.parametrize(
    "node", ["", "nan", -1, 4, 10**30, None, 1.5, True, "\x00", "\udcff", "٣", b"1", (1,), {}, "a" * 10**6]
)
def test_what_is_no_node_is_refused_in_a_sentence(node):
    with pytest.raises(ValueError, match=r"^`node` must be the id of a node of the graph. Got .{1,90}\.$"):
        find_node(star(), node)


@pytest.mark.parametrize("num", [0, -1, 1.5, "3", None, True])
def test_what_is_no_number_is_refused(num):
    with pytest.raises(ValueError, match=r"`num` must be an integer of at least 1. Got "):
        explain(star(), 0, num=num)


@pytest.mark.parametrize(
    "edges", [[[], []], [[1, 2], [2, 1]], [[0, 0, 1], [0, 0, 0]]], ids=["none", "isolated", "loops"]
)
def test_nodes_with_few_edges_can_be_explained(edges):
    data = star()
    data.edge_index = torch.tensor(edges, dtype=torch.int64)
    data.x = torch.tensor([[0.0, 1.0], [0.5, 0.0], [0.0, 0.0], [0.0, 0.25]])
    found = explain(data, 0, num=10**9)
    assert all(effect > 0 for _, effect in (*found.neighbours, *found.columns))
    assert not any(len({source, target}) == 2 and 0 not in (source, target) for source, target, _ in found.edges)


def test_of_a_number_both_directions_are_listed():
    """Node 0 predicts 4 · 4 · (1 + x of leaf 3), in units of 10 around 100."""
    data, task = star(), Regression("linear", mean=100.0, deviation=10.0)
    data.x[3] = torch.tensor([-0.25, 0.0])
    found = explain_node([Explained(plain_model(), data, synchronous(), task)], 0, task=task)
    assert (found.prediction, found.probability) == (pytest.approx(220.0), None)
    assert found.edges == ((1, 0, pytest.approx(160.0)), (3, 0, pytest.approx(40.0)))
    assert found.neighbours == ((1, pytest.approx(160.0)), (3, pytest.approx(40.0)))
    assert found.title == "0: 220"
    assert found.shown()[:2] == [("edge", "1 → 0", "160"), ("edge", "3 → 0", "40")]
    assert "1 → 0: 160" in draw_explanation(found)
    assert "the number moves by" in found._repr_html_()


def test_of_several_labels_the_most_likely_is_explained():
    data, task = star(), Classification(2, multi_label=True)
    found = explain_node([Explained(plain_model(), data, synchronous(), task)], 0, task=task, classes=["red", "blue"])
    assert found.prediction == "red"
    assert found.probability == pytest.approx(1.0, abs=1e-5)
    assert found.edges == ((1, 0, pytest.approx(0.5, abs=1e-5)),)
