import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch.nn.functional import cross_entropy

from gpnn.data.features import from_scipy
from gpnn.graph import Graph
from gpnn.nn.column_fitted import Columns, LinearColumns
from gpnn.nn.column_model import Relations, to_scipy
from gpnn.train.column_linear import LinearProblem

N, F = 80, 12


@pytest.fixture(params=[50, 15])
def graph_columns(request):
    """Columns of all nodes, dense and sparse features, and the training nodes: so many that X W comes first, or few."""
    from scipy.sparse import random_array

    random = np.random.default_rng(0)
    graph = Graph(*random.integers(0, N, (2, 200)), N)
    means = Relations.of(graph, directed=True).means()
    dense = torch.from_numpy(random.standard_normal((N, 2)).astype(np.float32))
    sparse = random_array((N, F), density=0.15, rng=random, dtype=np.float32).tocsr()
    nodes = torch.from_numpy(np.sort(random.permutation(N)[: request.param]))
    return Columns(from_scipy(sparse, sparse=True), None, means, dense), nodes, random


def design(columns: Columns, model: LinearColumns) -> np.ndarray:
    """Every column that counts, materialised, `[N, 3F + D]`."""
    x = columns.x.to_dense().double().numpy()
    x = x if columns.x.layout == torch.strided else x * model.get_buffer("x_scale").double().numpy()
    blocks = [x, *(to_scipy(each) @ x for each in columns.means)]
    scale = model.get_buffer("block_scale").double().numpy()
    return np.hstack([*(s * each for s, each in zip(scale, blocks)), columns.dense.double().numpy()])


def test_few_training_nodes_have_their_neighbours_columns_materialised(graph_columns):
    columns, nodes, _ = graph_columns
    assert LinearProblem.of(LinearColumns(F, 2, 2, 3), columns, nodes).is_joined == (len(nodes) == 15)


@pytest.mark.parametrize("strength", [0.1, 4.0])
def test_the_solution_is_that_of_logistic_regression_on_materialised_columns(graph_columns, strength):
    columns, nodes, random = graph_columns
    target = torch.from_numpy(random.integers(0, 3, len(nodes)))
    model = LinearColumns(F, 2, 2, 3)
    model.get_buffer("block_scale").copy_(torch.tensor([1.0, 2.0, 0.5]))
    model.get_buffer("x_scale").copy_(torch.linspace(0.5, 3.0, F))
    problem = LinearProblem.of(model, columns, nodes)
    problem.solve(model, lambda scores: cross_entropy(scores, target), strength)
    rows = design(columns, model)
    theirs = LogisticRegression(C=strength, tol=1e-8, max_iter=2000).fit(rows[nodes], target)
    mine = torch.softmax(model(columns).detach(), 1).numpy()
    np.testing.assert_allclose(mine, theirs.predict_proba(rows), atol=5e-3)


def test_the_solution_of_a_number_is_that_of_ridge(graph_columns):
    columns, nodes, random = graph_columns
    target = torch.from_numpy(random.standard_normal(len(nodes)).astype(np.float32))
    model = LinearColumns(F, 2, 2, 1)
    problem = LinearProblem.of(model, columns, nodes)
    problem.solve(model, lambda scores: (scores[:, 0] - target).square().mean() / 2, 1.0)
    rows = design(columns, model)
    theirs = Ridge(alpha=1.0).fit(rows[nodes], target)
    np.testing.assert_allclose(model(columns).detach().numpy()[:, 0], theirs.predict(rows), atol=5e-3)


def test_columns_that_scales_leave_out_have_no_weight(graph_columns):
    columns, nodes, random = graph_columns
    target = torch.from_numpy(random.integers(0, 3, len(nodes)))
    model = LinearColumns(F, 2, 2, 3)
    problem = LinearProblem.of(model, columns, nodes)
    problem.solve(model, lambda scores: cross_entropy(scores, target), 4.0)
    model.get_buffer("block_scale")[1:] = 0
    model.get_buffer("scale")[1] = 0
    problem.solve(model, lambda scores: cross_entropy(scores, target), 4.0)
    assert not model.weight[:, 3:].any()
    assert not model.dense_weight[1].any()
    assert model.weight[:, :3].any()


def test_dense_features_are_standardised(graph_columns):
    columns, nodes, random = graph_columns
    x = torch.from_numpy(random.standard_normal((N, F)).astype(np.float32)) * 100 + 7
    dense = Columns(x, None, columns.means, columns.dense)
    model = LinearColumns(F, 2, 2, 3)
    model.get_buffer("x_mean").copy_(x.mean(0))
    model.get_buffer("x_scale").copy_(1 / x.std(0))
    problem = LinearProblem.of(model, dense, nodes)
    target = torch.from_numpy(random.integers(0, 3, len(nodes)))
    problem.solve(model, lambda scores: cross_entropy(scores, target), 1.0)
    standard = Columns((x - x.mean(0)) / x.std(0), None, columns.means, columns.dense)
    rows = design(standard, model)
    theirs = LogisticRegression(C=1.0, tol=1e-8, max_iter=2000).fit(rows[nodes], target)
    mine = torch.softmax(model(dense).detach(), 1).numpy()
    np.testing.assert_allclose(mine, theirs.predict_proba(rows), atol=5e-3)


def test_the_size_of_a_block_is_that_of_its_rows(graph_columns):
    columns, nodes, _ = graph_columns
    model = LinearColumns(F, 2, 0, 1)
    columns = Columns(columns.x, None, columns.means, columns.dense[:, :0])
    found = torch.stack([LinearProblem.of(model, columns, nodes).block_sizes(model, seed) for seed in range(40)]).mean(
        0
    )
    x = columns.x.to_dense().double().numpy()
    rows = [each[nodes] for each in (x, *(to_scipy(each) @ x for each in columns.means))]
    expected = [np.sqrt(np.square(each).sum(1).mean()) for each in rows]
    np.testing.assert_allclose(found.numpy(), expected, rtol=0.1)
