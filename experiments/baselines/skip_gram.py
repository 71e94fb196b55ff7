"""Skip-gram with negative sampling (Mikolov et al. 2013), compiled, one thread: the same seed gives the same bits."""

import numpy as np
from numba import njit

from gpnn.partition.kernels import below, stream

LEAST_RATE = 0.0001


def train_skip_gram(
    walks: np.ndarray,
    num_nodes: int,
    *,
    channels: int,
    window: int,
    negatives: int = 5,
    epochs: int = 1,
    learning_rate: float = 0.025,
    seed: int = 0,
) -> np.ndarray:
    """An embedding of each node that tells the nodes near it in the walks from others, float32, `[N, d]`.

    For a pair (u, v) in a window of random width up to `window`, a step along the gradient of
    log σ(e_u · c_v) + Σ_k log σ(−e_u · c_n(k)), with n drawn as often as nodes occur to the power 3/4. The step size
    falls linearly. Defaults are word2vec's.

    Args:
        walks: nodes, −1 behind a walk's end, `[W, L]`.
        num_nodes: number of nodes N.
        channels: width d.
        window: the widest window.
        negatives: nodes n drawn for each pair.
        epochs: passes over the walks.
        learning_rate: the first step size.
        seed: of the start and of all draws.
    """
    rng = np.random.default_rng(seed)
    embedding = ((rng.random((num_nodes, channels), np.float32) - 0.5) / channels).astype(np.float32)
    context = np.zeros((num_nodes, channels), np.float32)
    count = np.bincount(walks[walks >= 0], minlength=num_nodes).astype(np.float64) ** 0.75
    threshold, alias = _alias_table(count / count.sum() * num_nodes)
    draw = (threshold, alias, stream(seed), negatives)
    _descend(walks, embedding, context, window, epochs, np.float32(learning_rate), *draw)
    return embedding


@njit(cache=True)
def _alias_table(share):  # type: ignore[no-untyped-def]
    """Walker's tables for drawing node n with chance share[n] / N: 32-bit thresholds and aliases."""
    size = len(share)
    share, threshold = share.copy(), np.full(size, 1 << 32, np.int64)
    alias = np.arange(size)
    small, large = [n for n in range(size) if share[n] < 1], [n for n in range(size) if share[n] >= 1]
    while len(small) and len(large):
        low, high = small.pop(), large[-1]
        threshold[low], alias[low] = np.int64(share[low] * 4294967296.0), high
        share[high] -= 1 - share[low]
        if share[high] < 1:
            small.append(large.pop())
    return threshold, alias


@njit(cache=True, fastmath=True)
def _descend(walks, embedding, context, window, epochs, rate, threshold, alias, state, negatives):  # type: ignore[no-untyped-def]
    num_walks, length = walks.shape
    gradient = np.empty(embedding.shape[1], np.float32)
    for walk in range(num_walks * epochs):
        path = walks[walk % num_walks]
        step = max(np.float32(LEAST_RATE), rate * np.float32(1 - walk / (num_walks * epochs)))
        for place in range(length):
            if path[place] < 0:
                break
            width = 1 + below(state, window)
            for other in range(max(0, place - width), min(length, place + width + 1)):
                if other != place and path[other] >= 0:
                    own = embedding[path[other]]
                    gradient[:] = 0
                    _pull(own, context[path[place]], np.float32(1), step, gradient)
                    for _ in range(negatives):
                        node = below(state, len(alias))
                        if below(state, (1 << 32) - 1) >= threshold[node]:
                            node = alias[node]
                        if node != path[place]:
                            _pull(own, context[node], np.float32(0), step, gradient)
                    own += gradient


@njit(cache=True, fastmath=True, inline="always")
def _pull(own, other, label, step, gradient):  # type: ignore[no-untyped-def]
    """Move `other` along its gradient for the pair; add `own`'s to `gradient`."""
    dot = np.float32(0)
    for column in range(len(own)):
        dot += own[column] * other[column]
    error = step * (label - np.float32(1) / (np.float32(1) + np.exp(-dot)))
    for column in range(len(own)):
        gradient[column] += error * other[column]
        other[column] += error * own[column]
