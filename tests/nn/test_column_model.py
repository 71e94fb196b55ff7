import numpy as np
import pytest
import torch

from gpnn.graph import Graph
from gpnn.nn.column_model import (
    EVIDENCE,
    FOLDS,
    STEPS,
    Relations,
    closed_walks,
    is_directed,
    label_columns,
    to_scipy,
    two_step_columns,
)


@pytest.fixture
def graph():
    """Typed, directed, with a loop and an edge twice."""
    random = np.random.default_rng(0)
    src, dst = random.integers(0, 12, (2, 40))
    src, dst = np.append(src, [3, src[0]]), np.append(dst, [3, dst[0]])
    return Graph(src, dst, 12, edge_type=random.integers(0, 2, 42))


def matrices(graph, num_types, directed):
    """The adjacency of each relation, receivers by senders, as numpy."""
    found = []
    for kind in range(num_types):
        matrix = np.zeros((graph.num_nodes, graph.num_nodes))
        for src, dst, own in zip(graph.src, graph.dst, graph.edge_type):
            if src != dst and (num_types == 1 or own == kind):
                matrix[dst, src] += 1
        found += [matrix, matrix.T] if directed else [matrix]
    return found


@pytest.mark.parametrize("num_types", [1, 2])
@pytest.mark.parametrize("directed", [False, True])
def test_relations_are_the_matrices_of_each_type_and_direction(graph, num_types, directed):
    relations = Relations.of(graph, num_types=num_types, directed=directed)
    expected = matrices(graph, num_types, directed)
    assert len(relations.each) == len(expected)
    for operator, matrix in zip(relations.each, expected):
        assert np.array_equal(to_scipy(operator).toarray(), matrix)
    assert np.array_equal(relations.degrees.numpy(), np.stack(expected, 1).sum(2))


def test_edges_below_zero_are_types_of_their_own_and_no_neighbours_of_all(graph):
    weight = torch.from_numpy(np.random.default_rng(2).standard_normal(42)).float()
    signed = Graph(graph.src, graph.dst, 12, edge_type=graph.edge_type, edge_weight=weight)
    relations = Relations.of(signed, num_types=4, weighted=True, signed=True)
    proper = graph.src != graph.dst
    size = weight.abs() / weight[proper].abs().mean()
    for number, operator in enumerate(relations.each):
        expected = np.zeros((12, 12))
        for edge in range(42):
            if proper[edge] and 2 * int(graph.edge_type[edge]) + (weight[edge] < 0) == number:
                expected[graph.dst[edge], graph.src[edge]] += size[edge]
        np.testing.assert_allclose(to_scipy(operator).toarray(), expected, rtol=1e-5)
    whole = Relations.of(signed, weighted=True).each[0]
    np.testing.assert_allclose(to_scipy(relations.whole).toarray(), to_scipy(whole).toarray())


def test_features_two_steps_away_are_those_of_walks_that_do_not_return(graph):
    x = np.random.default_rng(3).standard_normal((12, 2)).astype(np.float32)
    step = sum(matrices(graph, 1, True))
    walks = step @ step
    np.fill_diagonal(walks, 0)
    count = walks.sum(1, keepdims=True)
    found = two_step_columns(Relations.of(graph, directed=True).whole, torch.from_numpy(x))
    for mine, theirs in zip(found, (walks @ x, walks @ x / np.maximum(count, 1), np.log1p(count)), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-4, atol=1e-5)


def test_aggregates_are_those_of_numpy(graph):
    x = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
    found = Relations.of(graph, directed=True).aggregates(torch.from_numpy(x))
    for number, matrix in enumerate(matrices(graph, 1, True)):
        for node in range(12):
            rows = np.repeat(x, matrix[node].astype(int), 0)
            expected = [rows.mean(0), rows.sum(0), rows.max(0), rows.min(0)] if len(rows) else np.zeros((4, 3))
            for mine, theirs in zip(found[4 * number : 4 * number + 4], expected, strict=True):
                np.testing.assert_allclose(mine[node].numpy(), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
def test_weights_count_in_sums_means_and_degrees_but_not_in_extremes(graph, directed):
    weight = torch.from_numpy(np.random.default_rng(2).random(42)).float()
    weight[5] = -3.0  # counts as none
    weighed = Graph(graph.src, graph.dst, 12, edge_weight=weight)
    relations = Relations.of(weighed, directed=directed, weighted=True)
    proper = (graph.src != graph.dst).numpy()
    own = np.where(proper, weight.clamp(min=0), 0)
    own = own / own[proper].mean()
    matrix = np.zeros((12, 12))
    np.add.at(matrix, (graph.dst.numpy(), graph.src.numpy()), own)
    expected, counts = [matrix, matrix.T][: 1 + directed], matrices(graph, 1, directed)
    for operator, each in zip(relations.each, expected, strict=True):
        np.testing.assert_allclose(to_scipy(operator).toarray(), each, rtol=1e-5)
    degrees = np.stack([each.sum(1) for each in (*counts, *expected)], 1)
    np.testing.assert_allclose(relations.degrees.numpy(), degrees, rtol=1e-5)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((12, 3))).float()
    found, plain = relations.aggregates(x), Relations.of(graph, directed=directed).aggregates(x)
    mean = expected[0] @ x.numpy() / np.where(expected[0].sum(1) > 0, expected[0].sum(1), 1)[:, None]
    np.testing.assert_allclose(found[0].numpy(), mean, rtol=1e-4, atol=1e-6)
    assert torch.equal(found[2], plain[2])
    assert torch.equal(found[3], plain[3])
    ones = Relations.of(graph, directed=directed, weighted=True)  # a later graph without weights
    assert torch.equal(ones.degrees, torch.cat([ones.degrees[:, : 1 + directed]] * 2, 1))


def test_closed_walks_are_the_diagonal_of_the_product(graph):
    relations = Relations.of(graph, directed=True)
    dense = [to_scipy(each).toarray() for each in relations.each]
    for one, last in zip(dense, relations.each):
        for two, first in zip(dense, relations.each):
            assert np.array_equal(closed_walks(last, first).numpy(), np.diag(one @ two))


def test_many_relations_walk_over_all_edges_at_once(graph):
    ((last, first),) = Relations.of(graph, num_types=2, directed=True).pairs
    forth, back = matrices(graph, 1, True)
    assert np.array_equal(to_scipy(last).toarray(), forth + back)
    assert last is first


@pytest.mark.parametrize("num_types", [1, 2])
@pytest.mark.parametrize("directed", [False, True])
def test_all_relations_as_one_have_every_edge(graph, num_types, directed):
    whole = Relations.of(graph, num_types=num_types, directed=directed).whole
    assert np.array_equal(to_scipy(whole).toarray(), sum(matrices(graph, 1, directed)))


def test_a_graph_is_directed_where_an_edge_lacks_its_reverse(graph):
    assert is_directed(graph)
    assert not is_directed(graph.to_undirected())


@pytest.fixture
def relations():
    src, dst = np.random.default_rng(0).integers(0, 15, (2, 60))
    return Relations.of(Graph(src, dst, 15), directed=True)


def target_of(labels, known, classes=3):
    target = np.zeros((len(labels), classes), np.float32)
    target[known, labels[known]] = 1
    place = np.cumsum(known) - 1
    return torch.from_numpy(target), torch.from_numpy(known.astype(np.float32)), torch.from_numpy(place)


def propagated(relations, labels, known, classes):
    """Labels that come to each node, with those of its fold hidden, and how many."""
    edges = sum(to_scipy(each).toarray() for each in relations.each)
    mean = edges / edges.sum(1, keepdims=True).clip(1)
    fold = np.where(known, (np.cumsum(known) - 1) % FOLDS, -1)
    rows = []
    for node in range(len(labels)):
        seen = known & (fold != fold[node])
        given = np.c_[np.eye(classes)[labels], np.ones(len(labels))] * seen[:, None]
        state = given
        for _ in range(STEPS):
            state = np.where(seen[:, None], given, mean @ state)
        rows.append(state[node])
    rows = np.array(rows)
    return rows * EVIDENCE / rows[known, -1].mean()


def slow(relations, labels, known, hops, classes=3):
    """Each node's columns with its own label hidden from a second computation over all nodes."""
    dense = [to_scipy(each).toarray() for each in relations.each]
    walks = dense + [last @ first for last in dense for first in dense if hops > 1]
    prior = np.eye(classes)[labels[known]].mean(0)
    far = propagated(relations, labels, known, classes)
    rows = []
    for node in range(len(labels)):
        others = known.copy()
        others[node] = False
        row = []
        for walk in walks:
            counts = walk[node] * others
            total = counts @ (np.eye(classes)[labels] * others[:, None])
            row += [*((total + prior) / (counts.sum() + 1)), np.log1p(counts.sum())]
        if hops > 2:
            row += [*((far[node, :-1] + prior) / (far[node, -1] + 1)), np.log1p(far[node, -1])]
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_columns_are_those_with_the_own_label_hidden(relations, hops):
    random = np.random.default_rng(1)
    labels, known = random.integers(0, 3, 15), random.random(15) < 0.6
    found = label_columns(relations, *target_of(labels, known), hops)
    np.testing.assert_allclose(found.numpy(), slow(relations, labels, known, hops), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_node_does_not_see_its_own_label(relations, hops):
    """Up to the common mean that all neighbourhoods are drawn to, which is the same for every node."""
    random = np.random.default_rng(2)
    labels, known = random.integers(0, 3, 15), np.ones(15, bool)
    before = slow(relations, labels, known, hops)
    changed = labels.copy()
    changed[4] = (changed[4] + 1) % 3
    first, second = (label_columns(relations, *target_of(each, known), hops).numpy() for each in (labels, changed))
    counts = np.exp(first[:, 3::4]) - 1
    prior = [np.eye(3)[each].mean(0) for each in (labels, changed)]
    for walk in range(first.shape[1] // 4):
        sums = [
            (each[4, 4 * walk : 4 * walk + 3] * (counts[4, walk] + 1) - own)
            for each, own in zip((first, second), prior)
        ]
        np.testing.assert_allclose(*sums, atol=1e-4)
    assert np.abs(first - second)[np.arange(15) != 4].max() > 0.01
    assert before.shape == first.shape


def test_where_no_label_is_known_columns_are_those_of_the_prior(relations):
    labels, known = np.zeros(15, int), np.zeros(15, bool)
    assert label_columns(relations, *target_of(labels, known), 3).eq(0).all()
