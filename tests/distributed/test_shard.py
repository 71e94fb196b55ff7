"""Subgraphs dealt out in even stretches, those with many edges between them near each other."""

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gpnn
from gpnn.distributed.shard import order_parts, split_evenly


def heaviest(sizes, edges, bounds):
    weight = [n / max(1, sum(sizes)) + e / max(1, sum(edges)) for n, e in zip(sizes, edges)]
    return max(sum(weight[a:b]) for a, b in pairwise(bounds))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_other_stretches_are_lighter(data):
    count = data.draw(st.integers(1, 7))
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    edges = data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count))
    ranks = data.draw(st.integers(1, count))
    bounds = split_evenly(torch.tensor(sizes), torch.tensor(edges), ranks).tolist()
    assert bounds[0] == 0
    assert bounds[-1] == count
    assert all(sum(sizes[a:b]) > 0 for a, b in pairwise(bounds))
    best = min(heaviest(sizes, edges, [0, *inner, count]) for inner in combinations(range(1, count), ranks - 1))
    assert heaviest(sizes, edges, bounds) <= best * (1 + 1e-9)


def test_an_empty_subgraph_is_no_stretch():
    assert split_evenly(torch.tensor([3, 0, 3]), torch.tensor([1, 0, 1]), 2).tolist() in ([0, 1, 3], [0, 2, 3])
    with pytest.raises(ValueError, match=r"at least 3\. Got 2"):
        split_evenly(torch.tensor([3, 0, 3]), torch.tensor([1, 0, 1]), 3)


def test_neighbours_stand_together():
    """Four subgraphs in a chain 2 – 0 – 3 – 1, one node each."""
    chain = gpnn.Graph([2, 0, 3, 0, 3, 1], [0, 3, 1, 2, 0, 3], num_nodes=4)
    order = order_parts(chain, gpnn.Partition([0, 1, 2, 3], 4)).tolist()
    assert order in ([2, 0, 3, 1], [1, 3, 0, 2])
