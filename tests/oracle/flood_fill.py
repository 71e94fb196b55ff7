"""Algorithm 2 of the paper in plain Python, fed with the seeds and the random draws of the kernel."""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from gpnn import Graph

_MASK = (1 << 64) - 1


def flood_fill(graph: Graph, seeds: Sequence[int], draw: Callable[[int], int], leftover: str = "smallest") -> list[int]:
    """Part of each node.

    Args:
        graph: the graph.
        seeds: the node that each subgraph grows from.
        draw: a random integer below its argument.
        leftover: "smallest" or "spread".
    """
    label = grow(children(graph), seeds, draw)
    size = np.bincount(list(label.values()), minlength=len(seeds)).tolist()
    if leftover == "smallest":
        smallest = size.index(min(size))
        return [label.get(node, smallest) for node in range(graph.num_nodes)]
    for component in _unlabelled_components(graph, label):
        part = size.index(min(size))
        size[part] += len(component)
        label.update(dict.fromkeys(component, part))
    return [label[node] for node in range(graph.num_nodes)]


def children(graph: Graph) -> list[list[int]]:
    """The receivers of each node's edges, in the order of the edges."""
    lists: list[list[int]] = [[] for _ in range(graph.num_nodes)]
    for u, v in zip(graph.src.tolist(), graph.dst.tolist()):
        lists[u].append(v)
    return lists


def grow(children: list[list[int]], seeds: Sequence[int], draw: Callable[[int], int]) -> dict[int, int]:
    """Part of each node that a seed reaches (lines 6 to 19 of Algorithm 2)."""
    label = {seed: part for part, seed in enumerate(seeds)}
    queues = [deque([seed]) for seed in seeds]
    active = list(range(len(seeds)))
    while active:
        _shuffle(active, draw)
        for part in active:
            for child in children[queues[part].popleft()]:
                if child not in label:
                    label[child] = part
                    queues[part].append(child)
        active = [part for part in active if queues[part]]
    return label


def split_mix(state: int) -> Callable[[int], int]:
    """The kernel's stream of draws, in Python integers."""

    def draw(bound: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) >> 32) * bound >> 32

    return draw


def _shuffle(values: list[int], draw: Callable[[int], int]) -> None:
    for i in range(len(values) - 1, 0, -1):
        j = draw(i + 1)
        values[i], values[j] = values[j], values[i]


def _unlabelled_components(graph: Graph, label: dict[int, int]) -> list[set[int]]:
    """Weakly connected components of the nodes without a label, heaviest first, then by their first node."""
    free = {node: {node} for node in range(graph.num_nodes) if node not in label}
    for u, v in zip(graph.src.tolist(), graph.dst.tolist()):
        if u in free and v in free and free[u] is not free[v]:
            merged = free[u] | free[v]
            free.update(dict.fromkeys(merged, merged))
    distinct = {id(component): component for component in free.values()}
    return sorted(distinct.values(), key=lambda component: (-len(component), min(component)))
