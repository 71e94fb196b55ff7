"""Generated tasks whose answer lies many hops away: unions of small graphs, and a mesh of triangles.

Every graph of a union is whole in training, validation or test. Its node 0 is its lowest, where
`gpnn.schedule.waves` begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from gpnn.check import check_range
from gpnn.csr import compress, connect
from gpnn.data.splits import Split, split_fractions
from gpnn.data.synthetic import both_directions, with_reverse

if TYPE_CHECKING:
    from torch_geometric.data import Data

_CENTRES, _CLOSE = 12, 0.6  # how many dense places a mesh has, and the share of its nodes that lie in them


class Sample(NamedTuple):
    """One graph of n nodes with its task."""

    pairs: np.ndarray  # [m, 2] joined nodes
    x: np.ndarray  # [n, F] features
    y: np.ndarray  # [n] targets; -1 or NaN where none is asked for


def eccentricity(*, num_graphs: int = 600, longest: int = 40, scale: int = 1, seed: int = 0) -> Data:
    """How far each node is from its farthest: lines, ladders, grids, trees, caterpillars and lobsters, as ECHO has.

    A task of regression after the ECHO benchmark (Miglior et al. 2026), generated alike.

    Args:
        num_graphs: graphs of all six kinds in turn; six tenths train, two validate, two test.
        longest: largest length of a graph; the shortest are 17 long, or less where `longest` is.
        scale: how many times longer all graphs are, to test on what was trained with shorter ones.
        seed: the draw.

    >>> data = eccentricity(num_graphs=6, longest=3)
    >>> data.y[:4].tolist()  # a line of four nodes
    [3.0, 2.0, 2.0, 3.0]
    """
    return _distances(lambda distance: distance.max(1), num_graphs, longest, scale, seed)


def shortest_path(*, num_graphs: int = 600, longest: int = 40, scale: int = 1, seed: int = 0) -> Data:
    """The distance of each node from a marked one, its graph's node 0; otherwise as :func:`eccentricity`."""
    return _distances(lambda distance: distance[0], num_graphs, longest, scale, seed)


def diameter(*, num_graphs: int = 600, longest: int = 40, scale: int = 1, seed: int = 0) -> Data:
    """The largest distance in the whole graph, asked of each of its nodes; otherwise as :func:`eccentricity`."""
    return _distances(lambda distance: np.full(len(distance), distance.max()), num_graphs, longest, scale, seed)


def ring_transfer(
    *,
    num_graphs: int = 500,
    length: int = 20,
    shortest: int | None = None,
    num_classes: int = 5,
    test_scale: int = 1,
    seed: int = 0,
) -> Data:
    """One class is shown at a node of a ring and asked for at the opposite one.

    Args:
        num_graphs: rings; six tenths train, two validate, two test.
        length: nodes of a ring.
        shortest: nodes of the shortest ring, where lengths are drawn from it to `length`; None: all are `length` long.
        num_classes: number of classes.
        test_scale: how many times longer the rings are that test.
        seed: the draw.

    >>> ring_transfer(num_graphs=5, length=4).y.tolist()[:4]
    [-1, -1, 0, -1]
    """
    check_range("length", length, 3)
    shortest = length if shortest is None else shortest
    check_range("shortest", shortest, 3, length)
    check_range("num_classes", num_classes, 2)
    check_range("test_scale", test_scale, 1)
    rng = np.random.default_rng(seed)
    split = _split(num_graphs, rng)
    sizes = rng.integers(shortest, length, len(split), endpoint=True) * np.where(split == 2, test_scale, 1)
    return _join([_ring(int(size), num_classes, rng) for size in sizes], split)


def tree_match(*, num_graphs: int = 2000, depth: int = 4, seed: int = 0) -> Data:
    """Tree neighbours-match (Alon and Yahav 2021): the root names a key and is asked for the value of that key's leaf.

    Args:
        num_graphs: full binary trees; six tenths train, two validate, two test.
        depth: of the trees, which have 2^depth leaves and as many keys, values and classes.
        seed: the draw.

    >>> data = tree_match(num_graphs=5, depth=2)
    >>> data.num_classes, data.num_nodes, int((data.y >= 0).sum())
    (4, 35, 5)
    """
    check_range("depth", depth, 1, 16)
    rng = np.random.default_rng(seed)
    return _join([_matching_tree(depth, rng) for _ in range(num_graphs)], _split(num_graphs, rng))


def _distances(
    target: Callable[[np.ndarray], np.ndarray], num_graphs: int, longest: int, scale: int, seed: int
) -> Data:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import shortest_path

    check_range("longest", longest, 2)
    check_range("scale", scale, 1)
    rng = np.random.default_rng(seed)
    samples = []
    for number in range(num_graphs):
        length = scale * int(rng.integers(min(17, longest), longest, endpoint=True))
        pairs = _SHAPES[number % len(_SHAPES)](length, rng)
        num_nodes = int(pairs.max()) + 1
        matrix = coo_matrix((np.ones(len(pairs)), pairs.T), (num_nodes, num_nodes))
        distance = shortest_path(matrix, directed=False, unweighted=True)
        x = np.zeros((num_nodes, 2), np.float32)
        x[:, 0], x[0, 1] = 1, 1  # a constant, and a mark at node 0
        samples.append(Sample(pairs, x, target(distance).astype(np.float32)))
    return _join(samples, _split(num_graphs, rng, len(_SHAPES)))


def _split(num_graphs: int, rng: np.random.Generator, num_kinds: int = 1) -> np.ndarray:
    """0 (train), 1 (validate) or 2 (test) for each graph, drawn so that every kind has six, two and two of ten."""
    check_range("num_graphs", num_graphs, 5)
    split = np.array([0, 1, 0, 2, 0])[np.arange(num_graphs) // num_kinds % 5]
    for kind in range(num_kinds):
        split[kind::num_kinds] = rng.permutation(split[kind::num_kinds])
    return split


def _join(samples: Sequence[Sample], split: np.ndarray) -> Data:
    from torch_geometric.data import Data

    sizes = np.array([len(sample.x) for sample in samples])
    first = np.cumsum(sizes) - sizes
    pairs = np.concatenate([sample.pairs + offset for sample, offset in zip(samples, first, strict=True)])
    y = np.concatenate([sample.y for sample in samples])
    asked = y >= 0
    masks = [torch.from_numpy(asked & np.repeat(split == part, sizes)) for part in range(3)]
    data = Data(
        x=torch.from_numpy(np.concatenate([sample.x for sample in samples])),
        edge_index=with_reverse(pairs[:, 0], pairs[:, 1]),
        y=torch.from_numpy(y),
        **Split(*masks)._asdict(),
    )
    if y.dtype == np.int64:
        data.num_classes = int(y.max()) + 1
    else:
        data.task = "regression"
    return data


def _ring(length: int, num_classes: int, rng: np.random.Generator) -> Sample:
    shown = rng.integers(num_classes)
    x = np.zeros((length, num_classes + 1), np.float32)
    x[0, shown], x[length // 2, -1] = 1, 1
    y = np.full(length, -1)
    y[length // 2] = shown
    node = np.arange(length)
    return Sample(np.stack([node, (node + 1) % length], 1), x, y)


def _matching_tree(depth: int, rng: np.random.Generator) -> Sample:
    leaves = 1 << depth
    first_leaf, num_nodes = leaves - 1, 2 * leaves - 1
    keys, values = rng.permutation(leaves), rng.permutation(leaves)
    x = np.zeros((num_nodes, 2 * leaves), np.float32)
    x[first_leaf + np.arange(leaves), keys] = 1
    x[first_leaf + np.arange(leaves), leaves + values] = 1
    chosen = rng.integers(leaves)
    x[0, keys[chosen]] = 1
    y = np.full(num_nodes, -1)
    y[0] = values[chosen]
    node = np.arange(1, num_nodes)
    return Sample(np.stack([(node - 1) // 2, node], 1), x, y)


def _line(length: int, rng: np.random.Generator) -> np.ndarray:
    node = np.arange(length)
    return np.stack([node, node + 1], 1)


def _ladder(length: int, rng: np.random.Generator) -> np.ndarray:
    node = np.arange(2 * length)
    rails = np.stack([node[:-2], node[2:]], 1)
    return np.concatenate([rails, np.stack([node[::2], node[1::2]], 1)])


def _grid(length: int, rng: np.random.Generator) -> np.ndarray:
    """A grid about as far from corner to corner as `length`, without a tenth of its edges: its largest component."""
    columns = int(rng.integers(min(4, length), min(10, length), endpoint=True))
    node = np.arange(columns * max(length - columns, 2)).reshape(-1, columns)
    ends = (node[:, :-1], node[:, 1:]), (node[:-1], node[1:])
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in ends])
    pairs = pairs[rng.random(len(pairs)) >= 0.1]
    label = connect(pairs[:, 0], pairs[:, 1], node.size)[pairs[:, 0]]
    kept = pairs[label == np.bincount(label).argmax()]
    return np.unique(kept, return_inverse=True)[1].reshape(kept.shape)


def _tree(length: int, rng: np.random.Generator) -> np.ndarray:
    """A path, and twice as many nodes that each join an earlier one."""
    new = np.arange(length + 1, 3 * length + 1)
    parents = rng.integers(0, new)
    return np.concatenate([_line(length, rng), np.stack([parents, new], 1)])


def _caterpillar(length: int, rng: np.random.Generator) -> np.ndarray:
    """A path with up to two leaves at each node."""
    spine = np.repeat(np.arange(length + 1), rng.integers(0, 2, length + 1, endpoint=True))
    return np.concatenate([_line(length, rng), np.stack([spine, length + 1 + np.arange(len(spine))], 1)])


def _lobster(length: int, rng: np.random.Generator) -> np.ndarray:
    """A caterpillar of which every second leaf, by chance, has a leaf of its own."""
    pairs = _caterpillar(length, rng)
    leaves = np.arange(length + 1, pairs.max() + 1)
    leaves = leaves[rng.random(len(leaves)) < 0.5]
    return np.concatenate([pairs, np.stack([leaves, pairs.max() + 1 + np.arange(len(leaves))], 1)])


_SHAPES = (_line, _ladder, _grid, _tree, _caterpillar, _lobster)


def mesh_eccentricity(*, num_nodes: int = 4000, hops: int = 16, num_classes: int = 10, seed: int = 0) -> Data:
    """Classes of the length of the farthest route within 16 hops, on a generated mesh, as City-Networks has them.

    The recipe of Liang et al. (2025) for roads, on a Delaunay triangulation of points, some of them in dense places:
    the eccentricity of a node in its ego network of `hops` hops, an edge counting its length, in quantiles. A node sees
    its degree and the logarithms of the mean, least and largest length of its own edges.

    Args:
        num_nodes: nodes N.
        hops: radius of the ego network.
        num_classes: quantiles, which are the classes; a tenth of each trains, a tenth validates, the rest tests.
        seed: the draw.

    >>> data = mesh_eccentricity(num_nodes=100, hops=2)
    >>> data.y.bincount().tolist() == [10] * 10, data.x.shape[1]
    (True, 4)
    """
    from torch_geometric.data import Data

    from gpnn.data.kernels import local_eccentricity

    check_range("hops", hops, 1)
    check_range("num_classes", num_classes, 2)
    check_range("num_nodes", num_nodes, max(4, num_classes))
    points = _points(num_nodes, np.random.default_rng(seed))
    edge_index = _triangulate(points)
    src, dst = edge_index.numpy()
    ptr, index, edge = compress(src, dst, num_nodes)
    length = np.linalg.norm(points[src] - points[dst], axis=1)[edge]
    reach = local_eccentricity(ptr, index, length, hops)
    y = torch.from_numpy(np.argsort(np.argsort(reach, kind="stable")) * num_classes // num_nodes)
    split = split_fractions(y, train=0.1, val=0.1, seed=seed)
    x = torch.from_numpy(_describe_edges(ptr, length))
    return Data(x=x, edge_index=edge_index, y=y, num_classes=num_classes, **split._asdict())


def _points(num_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Points of the unit square, more than half of them around a few centres, `[N, 2]`."""
    centre, spread = rng.random((_CENTRES, 2)), 0.02 + 0.1 * rng.random(_CENTRES)
    of = rng.integers(_CENTRES, size=num_nodes)
    close = centre[of] + spread[of, None] * rng.standard_normal((num_nodes, 2))
    return np.where(rng.random((num_nodes, 1)) < _CLOSE, close, rng.random((num_nodes, 2)))


def _triangulate(points: np.ndarray) -> torch.Tensor:
    """The edges of the Delaunay triangulation in both directions, `[2, E]`."""
    from scipy.spatial import Delaunay

    corners = Delaunay(points).simplices
    first, second = corners.ravel(), np.roll(corners, 1, axis=1).ravel()
    return both_directions(first, second, len(points))


def _describe_edges(ptr: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Degree and logarithms of the mean, least and largest length of each node's edges, standardised, `[N, 4]`."""
    degree = np.diff(ptr)
    means = np.add.reduceat(length, ptr[:-1]) / degree
    extremes = [function.reduceat(length, ptr[:-1]) for function in (np.minimum, np.maximum)]
    columns = np.stack([degree, *np.log([means, *extremes])], 1)
    return ((columns - columns.mean(0)) / columns.std(0)).astype(np.float32)
