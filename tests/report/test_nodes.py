import torch

from gpnn.report.nodes import MAX_LISTED, first_nodes, nodes, rank_nodes
from gpnn.report.numbers import View
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
