"""A generated mesh of triangles whose classes are how far its nodes see within some hops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from gpnn.check import check_range
from gpnn.csr import compress
from gpnn.data.splits import split_fractions
from gpnn.data.synthetic import both_directions

if TYPE_CHECKING:
    from torch_geometric.data import Data

_CENTRES, _CLOSE = 12, 0.6  # how many dense places a mesh has, and the share of its nodes that lie in them


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

    from gpnn.data.mesh_kernel import local_eccentricity

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
