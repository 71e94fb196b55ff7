from dataclasses import replace

import torch
from torch_geometric.data import Data

from gpnn.explain import Explanation
from gpnn.report.nodes import MAX_LISTED, NUM_EACH, choose_examples, explanations, first_nodes, nodes, rank_nodes
from gpnn.report.numbers import View
from gpnn.report.record import Drawing
from tests.oracle.multi_hot import multi_hot_graph


def view(probabilities, y):
    return View("class", ["a", "b"], torch.tensor(probabilities), torch.tensor(y))


def test_lists_are_what_they_say():
    shown = view([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5], [0.45, 0.55]], [1, 1, 1, -1, -1])
    held_out = torch.tensor([True, True, True, False, False])
    ranked = rank_nodes(shown, held_out, torch.tensor([1, 1, 1, 1, 50]))
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


def test_several_labels_have_no_table(inputs):
    assert nodes(inputs.gather(data=multi_hot_graph(90), predictions=torch.rand(90, 4), partition=None)) is None


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
