"""Small levels of a hierarchy, drawn and by hand, and slow counts on them."""

import numpy as np
from hypothesis import strategies as st

from gpnn.partition.multilevel_level import Level


def level_of(matrix: np.ndarray, node_weight: np.ndarray | None = None) -> Level:
    """The level of a symmetric weight matrix with an empty diagonal."""
    rows, columns = np.nonzero(matrix)
    ptr = np.concatenate([[0], np.cumsum(np.count_nonzero(matrix, axis=1))]).astype(np.int64)
    weight = np.ones((len(matrix), 1), np.int32) if node_weight is None else node_weight.astype(np.int32)
    return Level(ptr, columns.astype(np.int32), matrix[rows, columns].astype(np.int32), weight)


def matrix_of(level: Level) -> np.ndarray:
    """The weight matrix of a level; entries that repeat add up."""
    size = len(level.ptr) - 1
    matrix = np.zeros((size, size), np.int64)
    rows = np.repeat(np.arange(size), np.diff(level.ptr))
    weight = level.edge_weight if len(level.edge_weight) else np.ones(len(rows), np.int64)
    np.add.at(matrix, (rows, level.neighbour), weight)
    return matrix


def slow_cut(matrix: np.ndarray, labels: np.ndarray) -> int:
    """Weight between parts, every edge twice."""
    return int(matrix[labels[:, None] != labels[None]].sum())


def slow_loads(node_weight: np.ndarray, labels: np.ndarray, num_parts: int) -> np.ndarray:
    """Weight of each part, `[K, C]`."""
    return np.stack([node_weight[labels == part].sum(0, dtype=np.int64) for part in range(num_parts)])


def chain_level(size: int) -> Level:
    """0 – 1 – … – (size − 1), all weights 1."""
    return level_of(np.eye(size, k=1, dtype=np.int64) + np.eye(size, k=-1, dtype=np.int64))


@st.composite
def levels(draw: st.DrawFn, max_nodes: int = 10, columns: int = 1) -> Level:
    """Weighted symmetric graphs, isolated nodes and components among them."""
    size = draw(st.integers(1, max_nodes))
    matrix = np.zeros((size, size), np.int64)
    for u, v in draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=20)):
        if u != v:
            matrix[u, v] = matrix[v, u] = draw(st.integers(1, 5))
    weight = draw(st.lists(st.integers(1, 3), min_size=size * columns, max_size=size * columns))
    return level_of(matrix, np.array(weight).reshape(size, columns))


@st.composite
def divided_levels(draw: st.DrawFn, num_parts: int) -> tuple[Level, np.ndarray]:
    """A level and a part of each node."""
    level = draw(levels())
    size = len(level.node_weight)
    labels = draw(st.lists(st.integers(0, num_parts - 1), min_size=size, max_size=size))
    return level, np.array(labels, np.int32)
