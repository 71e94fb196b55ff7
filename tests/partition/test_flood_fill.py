import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, partition_graph
from gpnn.partition.flood_fill import draw_seeds
from gpnn.partition.kernels import grow, stream
from tests.oracle.flood_fill import flood_fill as slow_flood_fill
from tests.oracle.flood_fill import split_mix
from tests.oracle.small_graphs import chain, graphs, ring


@settings(max_examples=150, deadline=None)
@given(graphs(max_nodes=14, max_edges=30), st.data())
def test_the_kernel_gives_the_labels_of_the_slow_version(graph, data):
    k = data.draw(st.integers(1, graph.num_nodes))
    seed = data.draw(st.integers(0, 1000))
    leftover = data.draw(st.sampled_from(["smallest", "spread"]))
    part = partition_graph(graph, k, seed=seed, leftover=leftover)
    ptr = graph.out_edges(with_edge=False).ptr
    seeds = draw_seeds(ptr, k, np.random.default_rng(seed), None).tolist()
    expected = slow_flood_fill(graph, seeds, split_mix(int(stream(seed)[0])), leftover)
    assert part.labels.tolist() == expected


def test_queues_are_first_in_first_out():
    """From one seed the nodes are claimed in breadth-first order."""
    tree = Graph([0, 0, 1, 1, 2, 2], [1, 2, 3, 4, 5, 6], num_nodes=7)
    rows = tree.out_edges(with_edge=False)
    _, following = grow(rows.ptr, rows.index, np.array([0]), stream(0))
    visited = [0]
    while len(visited) < 7:
        visited.append(int(following[visited[-1]]))
    assert visited == [0, 1, 2, 3, 4, 5, 6]


def test_two_seeds_at_the_ends_of_a_chain_meet_in_the_middle():
    rows = chain(8).out_edges(with_edge=False)
    labels, _ = grow(rows.ptr, rows.index, np.array([0, 7]), stream(0))
    assert labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_each_iteration_permutes_the_subgraphs():
    """Two seeds beside one free node: either may be first to claim it."""
    rows = chain(3).out_edges(with_edge=False)
    middle = {int(grow(rows.ptr, rows.index, np.array([0, 2]), stream(seed))[0][1]) for seed in range(20)}
    assert middle == {0, 1}


def test_edges_are_followed_from_sender_to_receiver():
    rows = Graph([1, 2], [0, 1], num_nodes=3).out_edges(with_edge=False)
    labels, _ = grow(rows.ptr, rows.index, np.array([1]), stream(0))
    assert labels.tolist() == [0, 0, -1]


def test_seeds_are_training_nodes():
    train_mask = torch.tensor([False, True, False, False, True, False])
    for seed in range(10):
        part = partition_graph(ring(6), 2, seed=seed, train_mask=train_mask)
        assert part.labels[1] != part.labels[4]


def test_all_that_no_seed_reaches_goes_to_the_subgraph_that_was_smallest():
    """The paper's rule: nodes 3 to 8 are unreached, parts have 2 and 1 nodes, and the smaller gets all six."""
    graph = Graph([0], [1], num_nodes=9)
    mask = torch.tensor([True, False, True] + [False] * 6)
    part = partition_graph(graph, 2, train_mask=mask)
    assert part.sizes[part.labels[0]] == 2
    assert part.sizes[part.labels[2]] == 7


def test_components_can_be_spread_heaviest_first():
    """Parts of 2 and 1 nodes; left over are components of 3, 2 and 1: 1+3, 2+2, then 4 = 4, the first takes 1."""
    graph = Graph([0, 3, 4, 6], [1, 4, 5, 7], num_nodes=9)
    mask = torch.tensor([True, False, True] + [False] * 6)
    part = partition_graph(graph, 2, train_mask=mask, leftover="spread")
    large, small = int(part.labels[0]), int(part.labels[2])
    assert part.labels.tolist() == [large, large, small, small, small, small, large, large, 0]


def test_more_parts_than_candidates_is_an_error():
    mask = torch.tensor([True, True, False, False])
    with pytest.raises(ValueError, match=r"`k` must be at most the 2 labelled nodes. Got 3."):
        partition_graph(ring(4), 3, train_mask=mask)


def test_an_unknown_rule_for_the_left_over_lists_the_choices():
    with pytest.raises(ValueError, match=r"`leftover` must be one of smallest, spread. Got 'drop'."):
        partition_graph(ring(4), 2, leftover="drop")


def test_the_input_is_not_changed():
    graph = ring(5)
    before = graph.src.clone()
    partition_graph(graph, 2)
    assert torch.equal(graph.src, before)


def _pointers(degree: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(degree)])


def test_seeds_are_distinct_and_only_candidates():
    nodes = np.array([1, 3, 5])
    for seed in range(20):
        drawn = draw_seeds(_pointers([4, 1, 4, 2, 4, 3]), 3, np.random.default_rng(seed), nodes)
        assert sorted(drawn.tolist()) == [1, 3, 5]


def test_the_first_seed_is_drawn_in_proportion_to_degree():
    """Degrees 1, 2, 3, 4: expected shares of 4,000 draws are 0.1 to 0.4, with a deviation below 0.008."""
    generator = np.random.default_rng(0)
    ptr = _pointers([1, 2, 3, 4])
    first = [draw_seeds(ptr, 1, generator, None)[0] for _ in range(4000)]
    assert np.bincount(first) / 4000 == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.03)


def test_the_second_seed_is_drawn_without_replacement():
    """Degrees 6, 3, 1: P(second is 1 | first is 0) = 3 / 4."""
    generator = np.random.default_rng(0)
    ptr = _pointers([6, 3, 1])
    pairs = [tuple(draw_seeds(ptr, 2, generator, None)) for _ in range(4000)]
    after_first = [second for first, second in pairs if first == 0]
    assert np.mean(np.array(after_first) == 1) == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("chunk", [2, 3, 1000])
def test_degree_zero_comes_only_when_the_others_are_used_up(monkeypatch, chunk):
    monkeypatch.setattr("gpnn.partition.flood_fill._CHUNK", chunk)
    ptr = _pointers([0, 1, 0, 1, 0, 5, 0, 0])
    for seed in range(20):
        drawn = draw_seeds(ptr, 5, np.random.default_rng(seed), None).tolist()
        assert sorted(drawn[:3]) == [1, 3, 5]
        assert set(drawn[3:]) <= {0, 2, 4, 6, 7}


def test_chunks_do_not_change_the_draw(monkeypatch):
    ptr = _pointers([3, 1, 4, 1, 5, 9, 2, 6, 0, 0])
    whole = [draw_seeds(ptr, 4, np.random.default_rng(seed), None).tolist() for seed in range(10)]
    monkeypatch.setattr("gpnn.partition.flood_fill._CHUNK", 3)
    assert whole == [draw_seeds(ptr, 4, np.random.default_rng(seed), None).tolist() for seed in range(10)]


def test_a_large_pool_is_searched_without_sorting_it():
    generator = np.random.default_rng(0)
    degree = np.zeros(1000, np.int64)
    degree[[7, 70, 700]] = 1
    assert sorted(draw_seeds(_pointers(degree.tolist()), 3, generator, None).tolist()) == [7, 70, 700]


def test_too_few_nodes_is_an_error():
    with pytest.raises(ValueError, match=r"`k` must be at most the 2 nodes. Got 3."):
        draw_seeds(_pointers([1, 1]), 3, np.random.default_rng(0), None)
