from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.partition.neighbours import distinct_neighbours, edge_ends, extend, neighbours, survey
from tests.oracle.small_graphs import chain, graphs, undirected_graphs


def _entries(graph: Graph) -> Counter:
    ptr, index = neighbours(graph)
    assert ptr[-1] == len(index)
    return Counter((node, int(v)) for node in range(graph.num_nodes) for v in index[ptr[node] : ptr[node + 1]])


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_an_asymmetric_graph_is_doubled(graph):
    edges = [(u, v) for u, v in zip(graph.src.tolist(), graph.dst.tolist()) if u != v]
    both = Counter(edges) + Counter((v, u) for u, v in edges)
    symmetric = all(Counter(edges)[v, u] == count for (u, v), count in Counter(edges).items())
    assert _entries(graph) == (Counter(edges) if symmetric else both)


@settings(max_examples=40, deadline=None)
@given(undirected_graphs())
def test_a_symmetric_graph_keeps_its_entries(graph):
    assert survey(graph.src.numpy(), graph.dst.numpy())[0]
    assert sum(_entries(graph).values()) == int((graph.src != graph.dst).sum())


def test_symmetry_counts_repeats():
    assert survey(*_arrays(Graph([0, 0, 1], [1, 1, 0], num_nodes=2)))[0] == 0
    assert survey(*_arrays(Graph([0, 0, 1, 1], [1, 1, 0, 0], num_nodes=2)))[0] == 1
    assert survey(*_arrays(Graph([0, 1, 2], [1, 2, 0], num_nodes=3)))[0] == 0  # every node has one edge in and out


def test_self_loops_are_counted_and_dropped():
    graph = Graph([0, 1, 1, 1], [1, 0, 1, 1], num_nodes=2)
    assert survey(*_arrays(graph))[1] == 2
    assert _entries(graph) == Counter({(0, 1): 1, (1, 0): 1})


def test_the_rows_of_a_chain():
    ptr, index = neighbours(chain(3))
    assert (ptr.tolist(), index.tolist()) == ([0, 1, 3, 4], [1, 2, 0, 1])


def _arrays(graph: Graph) -> tuple:
    return graph.src.numpy(), graph.dst.numpy()


def test_neighbours_are_symmetric_distinct_and_weighed_by_their_number():
    graph = Graph([0, 0, 1, 2, 2], [1, 1, 0, 2, 1], num_nodes=4)
    ptr, index, weight = distinct_neighbours(graph)
    assert ptr.tolist() == [0, 1, 3, 4, 4]
    assert index.tolist() == [1, 0, 2, 1]
    assert weight.tolist() == [3, 3, 1, 1]
    assert {array.dtype.name for array in (ptr, index, weight)} == {"int64"}


def test_ends_of_edges_are_summed_by_row():
    ptr, _, weight = distinct_neighbours(Graph([0, 0, 1, 2, 2], [1, 1, 0, 2, 1], num_nodes=4))
    assert edge_ends(ptr, weight).tolist() == [3, 4, 1, 0]


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_the_matrix_is_symmetric_and_counts_the_edges_between_two_nodes(graph):
    ptr, index, weight = distinct_neighbours(graph)
    dense = np.zeros((graph.num_nodes, graph.num_nodes), int)
    dense[np.repeat(np.arange(graph.num_nodes), np.diff(ptr)), index] = weight
    count = graph.to_scipy(weighted=False).toarray()
    np.fill_diagonal(count, 0)
    both = count + count.T
    assert (dense == both).all() or (dense == count).all()
    assert (dense == dense.T).all()


def slow_extend(graph: Graph, labels: list[int], num_parts: int) -> list[int]:
    """The same in plain Python: levels of a breadth-first search, then whole components."""
    joined = {node: label for node, label in enumerate(labels) if label >= 0}
    near: list[list[int]] = [[] for _ in labels]
    pairs = [(u, v) for u, v in zip(graph.src.tolist(), graph.dst.tolist()) if u != v]
    both_ways = sorted(pairs) == sorted((v, u) for u, v in pairs)
    for u, v in pairs:
        near[u].append(v)
        if not both_ways:
            near[v].append(u)
    while True:
        level = {}
        for node in set(range(len(labels))) - set(joined):
            votes = Counter(joined[other] for other in near[node] if other in joined)
            if votes:
                level[node] = min(votes, key=lambda label: (-votes[label], label))
        if not level:
            break
        joined |= level
    while len(joined) < len(labels):
        components = []
        left = set(range(len(labels))) - set(joined)
        while left:
            reached, todo = set(), [min(left)]
            while todo:
                node = todo.pop()
                if node not in reached:
                    reached.add(node)
                    todo += near[node]
            components.append(reached)
            left -= reached
        largest = max(components, key=lambda nodes: (len(nodes), -min(nodes)))
        sizes = Counter(joined.values())
        joined |= dict.fromkeys(largest, min(range(num_parts), key=lambda part: (sizes[part], part)))
    return [joined[node] for node in range(len(labels))]


@settings(max_examples=150, deadline=None)
@given(graphs(max_nodes=12, max_edges=20), st.data())
def test_the_kernel_gives_the_labels_of_the_slow_version(graph, data):
    num_parts = data.draw(st.integers(1, 4))
    part = st.integers(-1, num_parts - 1)
    labels = data.draw(st.lists(part, min_size=graph.num_nodes, max_size=graph.num_nodes))
    extended = extend(graph, np.array(labels), num_parts)
    assert extended.num_parts == num_parts
    assert extended.labels.tolist() == slow_extend(graph, labels, num_parts)


def test_the_majority_of_known_neighbours_decides_and_ties_go_to_the_lowest_number():
    star = Graph([0, 1, 2, 3], [4, 4, 4, 4], num_nodes=5)
    assert extend(star, np.array([2, 1, 2, 0, -1]), 3).labels[4] == 2
    assert extend(star, np.array([2, 1, 2, 1, -1]), 3).labels[4] == 1


def test_a_level_does_not_count_among_its_own_neighbours():
    """Nodes 2 and 3 are joined: had 2 been counted for 3, part 0 would have tied there and won."""
    graph = Graph([0, 1, 2], [2, 3, 3], num_nodes=4)
    assert extend(graph, np.array([0, 1, -1, -1]), 2).labels.tolist() == [0, 1, 0, 1]


def test_a_component_of_new_nodes_stays_whole_in_the_smallest_subgraph():
    graph = Graph([0, 1, 3, 4], [1, 2, 4, 5], num_nodes=7)
    assert extend(graph, np.array([0, 0, 1, -1, -1, -1, -1]), 2).labels.tolist() == [0, 0, 1, 1, 1, 1, 0]


def test_labels_are_left_as_they_were():
    labels = np.array([0, -1, -1])
    extend(chain(3), labels, 1)
    assert labels.tolist() == [0, -1, -1]
