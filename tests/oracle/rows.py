"""The rows of receivers of an edge list, one edge at a time."""

from collections.abc import Sequence
from typing import Any

Edge = tuple[int, int, int, float]  # sender, receiver, type, weight


def rows_of(edges: Sequence[Edge], num_nodes: int, *, undirected: bool = False, duplicates: str = "keep") -> list[Any]:
    """For each node the edges into it, `(sender, type, weight)` by sender and type, equal ones in the order given."""
    listed = list(edges)
    if undirected:
        listed += [(dst, src, kind, weight) for src, dst, kind, weight in edges if src != dst]
    rows: list[list[tuple[int, int, float]]] = [[] for _ in range(num_nodes)]
    for src, dst, kind, weight in listed:
        rows[dst].append((src, kind, weight))
    for node, row in enumerate(rows):
        row.sort(key=lambda entry: entry[:2])
        if duplicates != "keep":
            rows[node] = _merge(row, duplicates)
    return rows


def _merge(row: list[tuple[int, int, float]], duplicates: str) -> list[tuple[int, int, float]]:
    merged: dict[tuple[int, int], float] = {}
    for src, kind, weight in row:
        if (src, kind) not in merged:
            merged[src, kind] = weight
        elif duplicates == "sum":
            merged[src, kind] += weight
    return [(*key, weight) for key, weight in merged.items()]
