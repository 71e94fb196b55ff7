import numpy as np
import pytest
import torch

import gpnn
from gpnn.graph import as_graph
from gpnn.nn import MaskKey
from gpnn.nn.layers import mark_dense
from gpnn.nn.sampled_rows import SampledRows, walk_weights


def slow(data, order, alpha):
    """Π, dense."""
    graph = as_graph(data)
    matrix = np.eye(graph.num_nodes)
    np.add.at(matrix, (graph.dst.numpy(), graph.src.numpy()), 1)
    mean = matrix / matrix.sum(1, keepdims=True)
    return sum(w * np.linalg.matrix_power(mean, t) for t, w in enumerate(walk_weights(order, alpha)))


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_whole_rows_are_those_of_the_matrix(planted, alpha):
    rows = SampledRows.of(as_graph(planted), planted.x, order=3, alpha=alpha, entries=planted.num_nodes)
    dense = np.zeros((90, 90))
    np.add.at(dense, (np.arange(90)[:, None], rows.columns), rows.weights)
    np.testing.assert_allclose(dense.sum(1), 1, atol=1e-3)  # very small entries are left out
    expected = slow(planted, 3, alpha)
    np.testing.assert_allclose(dense, expected, atol=1e-3)
    found = rows.draw(np.arange(90), 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(found, expected @ planted.x.numpy(), atol=1e-2)


def test_whole_rows_are_what_a_model_propagates(planted):
    """The model evaluates with the matrix whose rows its training samples."""
    plan = gpnn.lower(planted, gpnn.schedule.synchronous(planted, 3), normalization="graph", self_loops=True)
    model = gpnn.nn.GPNN(
        3, 8, 3, cell="linear", cell_options={"alpha": 0.3}, predict="features", concat="none", num_rounds=3
    ).eval()
    rows = SampledRows.of(as_graph(planted), planted.x, order=3, alpha=0.3, entries=90)
    spread = rows.draw(np.arange(90), 0.0, np.random.default_rng(0))
    torch.testing.assert_close(model.score_spread(spread, None), model(planted.x, plan), atol=1e-2, rtol=1e-2)


def test_few_entries_are_the_largest(planted):
    few, all_of_them = (
        SampledRows.of(as_graph(planted), planted.x, order=2, alpha=0.2, entries=count) for count in (4, 90)
    )
    expected = -np.sort(-all_of_them.weights, 1)[:, :4]
    np.testing.assert_allclose(-np.sort(-few.weights, 1), expected, atol=1e-6)


def test_dropped_entries_leave_rows_that_sum_to_one(planted):
    rows = SampledRows.of(as_graph(planted), torch.ones(90, 1), order=2, alpha=0.2)
    drawn = rows.draw(np.arange(90), 0.5, np.random.default_rng(0))
    assert set(drawn.round(decimals=4).flatten().tolist()) <= {0.0, 1.0}
    assert drawn.mean() > 0.9


def test_sparse_draws_are_the_dense_ones(planted):
    rows = SampledRows.of(as_graph(planted), planted.x, order=2, alpha=0.2)
    dense, sparse = (rows.draw(np.arange(5, 90), 0.5, np.random.default_rng(0), dense=each) for each in (True, False))
    torch.testing.assert_close(sparse.to_dense(), dense)
    model = gpnn.nn.GPNN(3, 8, 3, cell="linear", predict="features", concat="none", input_dropout=0.4, num_rounds=2)
    key = MaskKey(0, 1, 2, torch.arange(5, 90))
    torch.testing.assert_close(model.score_spread(sparse, key), model.score_spread(mark_dense(dense), key))


def test_large_features_are_mapped_before_they_propagate(planted, monkeypatch):
    plan = gpnn.lower(planted, gpnn.schedule.synchronous(planted, 3), normalization="symmetric", self_loops=True)
    options = {"cell": "linear", "predict": "features", "concat": "none", "activation": "relu", "readout": "mean"}
    model = gpnn.nn.GPNN(3, 2, 3, **options, num_rounds=3).eval()
    torch.nn.init.ones_(model.encoder.first.bias)
    expected, states = model(planted.x, plan), model.states(planted.x, plan)
    monkeypatch.setattr("gpnn.nn.gpnn.KEPT_SPREAD", 0)
    for x in (planted.x, planted.x.to_sparse_csr()):
        torch.testing.assert_close(model(x, plan), expected)
        torch.testing.assert_close(model(x, plan, rows=torch.tensor([3, 1])), expected[[3, 1]])
        torch.testing.assert_close(model.states(x, plan), states)
