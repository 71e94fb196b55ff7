from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from gpnn.explain import Explanation
from gpnn.report.nodes import MAX_LISTED, NUM_EACH, choose_examples, explanations, first_nodes, nodes, rank_nodes
from gpnn.report.numbers import View
from gpnn.report.record import Drawing
from tests.oracle.multi_hot import multi_hot_graph


def view(probabilities, y):
    return View("class", ["a", "b"], torch.tensor(probabilities), torch.tensor(y))


@pytest.mark.parametrize(
    ("probabilities", "y"),
    [
        ([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5], [0.45, 0.55]], [1, 1, 1, -1, -1]),
        (  # of several labels the one that is furthest off counts
            [[0.9, 0.2], [0.6, 0.4], [0.7, 0.05], [0.5, 0.1], [0.99, 0.45]],
            [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [-1.0, -1.0], [-1.0, -1.0]],
        ),
    ],
    ids=["a class", "several labels"],
)
def test_lists_are_what_they_say(probabilities, y):
    held_out = torch.tensor([True, True, True, False, False])
    ranked = rank_nodes(view(probabilities, y), held_out, torch.tensor([1, 1, 1, 1, 50]))
    assert {name: first_nodes(scores).tolist() for name, scores in ranked.items()} == {
        "surest mistakes": [0, 1],
        "least sure": [3, 4, 1, 2, 0],
        "without a label": [4, 3],
        "worth a label next": [4, 3],  # hardly surer, and of many edges
    }


def test_numbers_are_ranked_by_error_and_interval():
    numbers = torch.tensor([[1.0, 1.5, 1.0, 2.0], [5.0, 1.0, 0.0, 9.0], [float("nan"), 2.0, 1.0, 3.0]])
    shown = View("range", ["all"], torch.ones(3, 1), torch.tensor([0, 0, -1]), numbers)
    ranked = rank_nodes(shown, torch.tensor([True, True, False]), torch.ones(3))
    assert first_nodes(ranked["surest mistakes"]).tolist() == [1, 0]
    assert first_nodes(ranked["least sure"]).tolist() == [1, 2, 0]
    assert first_nodes(ranked["worth a label next"]).tolist() == [2]


def test_the_table_has_the_users_ids_and_is_bounded(record):
    search = nodes(record).parts[0]
    assert list(search.groups)[-1] == "all nodes"
    assert all(len(rows) <= MAX_LISTED for name, rows in search.groups.items() if name != "all nodes")
    assert {row[0] for row in search.groups["all nodes"]} == set(record.sample.facts.names)
    for row in search.groups["surest mistakes"]:
        assert row[1] != row[2]
        assert row[5] in ("test", "validation")
    assert len({len(row) for rows in search.groups.values() for row in rows} | {len(search.columns)}) == 1


def test_the_table_names_all_labels_of_a_node(inputs):
    data = multi_hot_graph(90)
    data.class_names = ["art", "law", "tea", "<b>zoo</b>"]
    likely = torch.where(data.y > 0, 0.8, 0.3)
    likely[:, 3] = 0.45
    likely[44] = 0.1
    (search,) = nodes(inputs.gather(data=data, predictions=likely, partition=None)).parts
    assert search.columns[:4] == ("node", "true", "prediction", "least sure label")
    rows = {row[0]: row for row in search.groups["all nodes"]}
    assert len(rows) == 90
    assert {row[3] for row in rows.values() if row[0] != "44"} == {"<b>zoo</b> (45.0\u202f%)"}
    assert rows["44"][2] == "none"
    assert rows["89"][1] == "–"
    known = [row for row in rows.values() if row[1] != "–"]
    assert all(row[1].replace("; <b>zoo</b>", "") == row[2] for row in known if "art" in row[1] and row[0] != "44")
    assert {row[0] for row in search.groups["surest mistakes"]} <= {row[0] for row in known if row[4] != "training"}
    assert {row[0] for row in search.groups["without a label"]} == {str(node) for node in range(78, 90)}


def test_of_several_labels_the_one_that_is_explained_is_right_or_wrong():
    y = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    data = Data(y=y, num_nodes=4, class_names=["red", "blue"], test_mask=torch.ones(4, dtype=torch.bool))
    likely = torch.tensor([[0.9, 0.6], [0.8, 0.7], [0.7, 0.1], [0.3, 0.2]])
    assert choose_examples(data, likely, seed=0) == {1: "wrong: it is blue", 2: "wrong: it is none", 0: "right"}


WHY = Explanation(7, "red", 0.75, ((3, 7, 0.25), (4, 7, 0.125)), ((3, 0.25),), (("age", 0.5),), 0.375, 2)


def test_the_surest_mistakes_and_some_right_answers_are_chosen():
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    data = Data(y=y, num_nodes=8, class_names=["red", "blue"], test_mask=torch.tensor([False] + [True] * 7))
    sure = torch.tensor([0.1, 0.9, 0.8, 0.3, 0.2, 0.1, 0.7, 0.9])  # of the second class
    found = choose_examples(data, torch.stack([1 - sure, sure], 1), seed=0)
    assert list(found)[:NUM_EACH] == [5, 1, 2] or list(found)[:NUM_EACH] == [1, 5, 2]
    assert found[5] == "wrong: it is blue"
    assert found[1] == "wrong: it is red"
    assert {row for row, about in found.items() if about == "right"} == {3, 6, 7}
    assert choose_examples(Data(y=y, num_nodes=8), torch.stack([1 - sure, sure], 1), seed=0) == {}


def test_a_number_is_wrong_outside_of_its_interval():
    y = torch.tensor([1.0, 2.0, 3.5, float("nan")], dtype=torch.float64)
    data = Data(y=y, num_nodes=4, test_mask=torch.tensor([True, True, True, False]))
    predictions = torch.tensor([[1.5, 1.0, 2.0], [1.0, 0.5, 1.5], [9.0, 8.0, 10.0], [1.0, 0.0, 2.0]])
    found = choose_examples(data, predictions, seed=0)
    assert found == {2: "wrong: it is 3.5", 1: "wrong: it is 2", 0: "right"}


def test_a_run_explains_some_of_its_nodes(record):
    section = explanations(record)
    assert section is not None
    titles = [part.title for part in section.parts if isinstance(part, Drawing)]
    assert any(title.endswith("(right)") for title in titles)
    assert len(titles) <= 2 * NUM_EACH


def test_each_has_a_picture_and_a_table(record):
    section = explanations(replace(record, explanations=[("right", WHY)]))
    (picture,) = section.parts
    assert isinstance(picture, Drawing)
    assert picture.title == "7: red, probability 75.0 % (right)"
    assert picture.table.rows[2] == ("the 2 above together", "edges", "37.5 %")
    little = replace(WHY, num_together=1, columns=(("age", 0.1), ("size", -0.01), ("year", 4e-4)))
    (picture,) = explanations(replace(record, explanations=[("right", little)])).parts
    assert [name for name, kind, _ in picture.table.rows if kind == "column"] == ["age"]
    assert "age" in picture.svg
    assert "year" not in picture.svg
    nothing = replace(WHY, edges=(), neighbours=(), columns=(), together=0.0, num_together=0)
    (only,) = explanations(replace(record, explanations=[("right", nothing)])).parts
    assert only.rows == [("nothing whose deletion costs it probability", "")]
    assert explanations(replace(record, explanations=())) is None
