from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.partition.extend import extend
from tests.oracle.small_graphs import chain, graphs


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
