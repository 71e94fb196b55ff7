import numpy as np
import pytest
import torch

from gpnn.graph import Graph
from gpnn.nn.columns.column_model import label_columns
from gpnn.nn.columns.relations import Relations, to_scipy


@pytest.fixture
def relations():
    src, dst = np.random.default_rng(0).integers(0, 15, (2, 60))
    return Relations.of(Graph(src, dst, 15), directed=True)


def target_of(labels, known, classes=3):
    target = np.zeros((len(labels), classes), np.float32)
    target[known, labels[known]] = 1
    return torch.from_numpy(target), torch.from_numpy(known.astype(np.float32))


def slow(relations, labels, known, hops, classes=3):
    """Each node's columns with its own label hidden from a second computation over all nodes."""
    dense = [to_scipy(each).toarray() for each in relations.each]
    walks = dense + [last @ first for last in dense for first in dense if hops > 1]
    prior = np.eye(classes)[labels[known]].mean(0)
    rows = []
    for node in range(len(labels)):
        others = known.copy()
        others[node] = False
        row = []
        for walk in walks:
            counts = walk[node] * others
            total = counts @ (np.eye(classes)[labels] * others[:, None])
            row += [*((total + prior) / (counts.sum() + 1)), np.log1p(counts.sum())]
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("hops", [1, 2])
def test_columns_are_those_with_the_own_label_hidden(relations, hops):
    random = np.random.default_rng(1)
    labels, known = random.integers(0, 3, 15), random.random(15) < 0.6
    found = label_columns(relations, *target_of(labels, known), hops)
    np.testing.assert_allclose(found.numpy(), slow(relations, labels, known, hops), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hops", [1, 2])
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
