"""k-means, begun on a sample: Lloyd's rounds over all points are few."""

from __future__ import annotations

import warnings

import numpy as np

_SAMPLE = 50  # points a cluster that it starts from, and the least in all
_LEAST_SAMPLE = 5_000
_SAMPLE_STARTS = 3
_LAST_ROUNDS = 15


def k_means(points: np.ndarray, k: int, seed: int = 0, starts: int = _SAMPLE_STARTS) -> np.ndarray:
    """Cluster of each point, int32, `[n]`; one may be empty where fewer than k points differ.

    It runs in one thread: several add up in an order that changes from run to run.

    Args:
        points: `[n, d]`.
        k: number of clusters.
        seed: of the sample and of the starts.
        starts: how often the sample is clustered; the best is kept.

    >>> k_means(np.array([[0.0], [9.0], [0.1], [9.1]]), 2).tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    True
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    points = np.ascontiguousarray(points / np.abs(points).max(), np.float32)
    sample = points
    if len(points) > (size := max(_LEAST_SAMPLE, _SAMPLE * k)):
        sample = points[np.random.default_rng(seed).choice(len(points), size, replace=False)]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        start = KMeans(k, n_init=starts, random_state=seed % 2**32).fit(sample)
        if sample is points:
            return start.labels_.astype(np.int32)
        whole = KMeans(k, init=start.cluster_centers_, n_init=1, max_iter=_LAST_ROUNDS).fit(points)
    return whole.labels_.astype(np.int32)
