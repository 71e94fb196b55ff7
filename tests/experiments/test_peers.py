import pytest
import torch

from experiments.harness.run import run_cell
from experiments.harness.spec import Cell
from experiments.peers.networks import neighbour_columns
from experiments.peers.peer import METHODS, run_peer


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_eight_trials_and_learns(planted, method):
    found = run_peer(method, planted, 0, epochs=12)
    assert found["trials"] == 8
    assert found["test_accuracy"] > 0.4
    assert found["metric"] == "accuracy"


def test_columns_of_neighbours_by_hand():
    x = torch.tensor([[1.0], [3.0], [5.0]])
    found = neighbour_columns(x, torch.tensor([[0, 1], [1, 2]]), 3)
    assert found.tolist() == [[1.0, 3.0, 1.0], [3.0, 3.0, 2.0], [5.0, 3.0, 1.0]]


def test_the_race_of_a_table_is_the_estimator_s():
    small = {"name": "planted", "num_nodes": 120, "num_classes": 3, "num_features": 8, "label_rate": 0.3}
    found = run_cell(Cell("row", "column", 0, {"kind": "race", "recipe": "columns", "data": small}))
    assert found["recipe"] == "columns"
    assert 0 <= found["test_accuracy"] <= 1


def test_an_unknown_peer_is_named():
    with pytest.raises(ValueError, match=r"`method` must be one of gcn, .*boosted_trees\. Got 'magic'"):
        run_peer("magic", None, 0)
