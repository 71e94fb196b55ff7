import numpy as np
import pytest
import torch

from gpnn.data import load_dataset
from gpnn.data.facts import homophily
from gpnn.data.people import people
from gpnn.graph import Graph, as_graph
from gpnn.train.notes import count_one_way


def share_inside(data) -> float:
    return homophily(data.y, as_graph(data), torch.ones(data.num_nodes, dtype=torch.bool))


@pytest.mark.parametrize("wanted", [0.0, 0.3, 0.9])
def test_the_share_of_acquaintances_in_the_own_group(wanted):
    assert share_inside(people(num_nodes=2000, degree=20.0, homophily=wanted)) == pytest.approx(wanted, abs=0.03)


def test_directed_links_lead_to_the_next_group():
    data = people(homophily=0.0, links="directed")
    assert ((data.y[data.edge_index[1]] - data.y[data.edge_index[0]]) % 4 == 1).all()
    assert count_one_way(Graph.from_data(data)) > 0.9 * data.num_edges
    assert count_one_way(Graph.from_data(people())) == 0


def test_columns_tell_as_much_as_they_are_told_to():
    def distance(signal: float) -> float:
        data = people(num_nodes=4000, num_classes=2, column_signal=signal)
        means = [data.x[data.y == each].mean(0) for each in (0, 1)]
        return float((means[0] - means[1])[:4].abs().max())

    assert distance(0.0) < 0.15 < 0.5 < distance(1.0)


def test_a_number_follows_columns_and_acquaintances():
    data = load_dataset("people", target="number", num_nodes=3000, label_rate=0.5)
    assert data.task == "regression"
    x, y = data.x.numpy(), data.y.numpy()
    degree = np.bincount(data.edge_index[1].numpy(), minlength=3000)
    known = np.stack([x[:, 0] * x[:, 1], degree, np.ones(3000)], 1)
    rest = y - known @ np.linalg.lstsq(known, y, rcond=None)[0]
    assert rest.var() < 0.8 * y.var()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"homophily": 1.5}, "`homophily` must be from 0 to 1. Got 1.5"),
        ({"links": "both"}, "`links` must be one of undirected, directed. Got 'both'"),
        ({"target": "text"}, "`target` must be one of class, number. Got 'text'"),
        ({"num_columns": 2}, "`num_columns` must be at least 3. Got 2"),
    ],
)
def test_refuses_options(options, message):
    with pytest.raises(ValueError, match=message):
        people(**options)
