"""Slow traversals in plain Python: breadth-first order, longest-path levels, Kruskal's forest."""

from collections import deque


def bfs_order(edges: list[tuple[int, int]], num_nodes: int, root: int) -> list[int]:
    """Nodes as a breadth-first search visits them, lower neighbours first, restarted at the lowest left."""
    visited: list[int] = []
    for start in [root, *range(num_nodes)]:
        if start in visited:
            continue
        visited.append(start)
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for sender, receiver in sorted(edges):
                if sender == node and receiver not in visited:
                    visited.append(receiver)
                    queue.append(receiver)
    return visited


def longest_path(edges: list[tuple[int, int]], node: int) -> int:
    """Number of edges of the longest path that ends in `node`; `edges` have no cycle."""
    return max((1 + longest_path(edges, sender) for sender, receiver in edges if receiver == node), default=0)


def kruskal(pairs: list[tuple[int, int]], weights: list[float], num_nodes: int) -> set[tuple[int, int]]:
    """The pairs of the minimum spanning forest."""
    tree_of = {node: {node} for node in range(num_nodes)}
    forest = set()
    for _, (u, v) in sorted(zip(weights, pairs)):
        if tree_of[u] is not tree_of[v]:
            joined = tree_of[u] | tree_of[v]
            for node in joined:
                tree_of[node] = joined
            forest.add((u, v))
    return forest
