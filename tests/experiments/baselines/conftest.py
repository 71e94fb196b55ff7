"""A planted graph that every baseline solves in a blink: sparse words, components, isolated and unlabelled nodes."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gpnn.data.features import csr_tensor

NUM_CLASSES, PER_CLASS, WORDS = 3, 24, 12
ISOLATED = 3  # the last nodes have no edge; the very last has no words either


@pytest.fixture(scope="session")
def planted() -> Data:
    rng = np.random.default_rng(0)
    count = NUM_CLASSES * PER_CLASS
    num_nodes = count + ISOLATED
    y = np.arange(num_nodes) % NUM_CLASSES
    first = rng.integers(count, size=5 * count)
    second = (rng.integers(PER_CLASS, size=len(first)) * NUM_CLASSES) + y[first]
    astray = rng.random(len(first)) < 0.1
    second[astray] = rng.integers(count, size=astray.sum())
    half = np.where(first < count // 2, 0, 1) == np.where(second < count // 2, 0, 1)  # two components
    edges = np.stack([first[half], second[half]])
    words = np.zeros((num_nodes, NUM_CLASSES * WORDS), np.float32)
    for node in range(num_nodes - 1):
        own = y[node] * WORDS + rng.integers(WORDS, size=4)
        words[node, [*own, *rng.integers(words.shape[1], size=2)]] = 1
    kind = rng.permutation(count)
    masks = {}
    for name, nodes in {"train": kind[:15], "val": kind[15:36], "test": kind[36:66]}.items():
        masks[f"{name}_mask"] = torch.zeros(num_nodes, dtype=torch.bool).index_fill_(0, torch.from_numpy(nodes), True)
    labels = torch.from_numpy(y)
    labels[torch.from_numpy(kind[66:])] = -1
    labels[-ISOLATED:] = -1
    return Data(
        x=sparse(words),
        y=labels,
        edge_index=torch.from_numpy(np.hstack([edges, edges[::-1]])),
        num_classes=NUM_CLASSES,
        **masks,
    )


def sparse(words: np.ndarray) -> torch.Tensor:
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(words)
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape)
