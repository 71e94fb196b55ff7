"""Which answers a report explains, and how."""

from dataclasses import replace

import torch
from torch_geometric.data import Data

from gpnn.explain import Explanation
from gpnn.report.content import Drawing, Table
from gpnn.report.explanations import NUM_EACH, choose_examples, explanations

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
    picture, table = section.parts
    assert isinstance(picture, Drawing)
    assert isinstance(table, Table)
    assert picture.title == "7: red, probability 0.7500 (right)"
    assert table.rows[2] == ("the 2 above together", "edges", "0.375")
    nothing = replace(WHY, edges=(), neighbours=(), columns=(), together=0.0, num_together=0)
    (only,) = explanations(replace(record, explanations=[("right", nothing)])).parts
    assert only.rows == [("nothing whose deletion costs it probability", "")]
    assert explanations(replace(record, explanations=())) is None
