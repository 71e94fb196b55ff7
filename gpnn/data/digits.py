"""The embedded default: scikit-learn's handwritten digits on a nearest-neighbour graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from gpnn.data.splits import split_per_class

if TYPE_CHECKING:
    from torch_geometric.data import Data


def digits(*, neighbors: int = 10, per_class: int = 10, num_val: int = 300, seed: int = 0) -> Data:
    """1,797 handwritten digits, each joined to its 10 nearest images; comes with scikit-learn, no download.

    An edge joins two images when either is among the other's nearest (Euclidean, ties to the smaller id).

    Args:
        neighbors: nearest images of each image.
        per_class: training images of each digit.
        num_val: validation images; the rest test.
        seed: the draw of the split.

    >>> data = digits()
    >>> [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)]
    [100, 300, 1397]
    """
    from sklearn.datasets import load_digits
    from torch_geometric.data import Data

    pixels, labels = load_digits(return_X_y=True)  # integers from 0 to 16
    if not 1 <= neighbors < len(pixels):
        raise ValueError(f"`neighbors` must be from 1 to {len(pixels) - 1}. Got {neighbors}.")
    y = torch.from_numpy(labels.astype(np.int64))
    split = split_per_class(y, per_class=per_class, num_val=num_val, seed=seed)
    return Data(
        x=torch.from_numpy((pixels / 16).astype(np.float32)),
        edge_index=torch.from_numpy(_nearest(pixels, neighbors)),
        y=y,
        num_classes=10,
        **split._asdict(),
    )


def _nearest(points: np.ndarray, neighbors: int) -> np.ndarray:
    """The symmetric nearest-neighbour graph of integer points, sorted, `[2, E]`."""
    squares = (points**2).sum(axis=1)
    distance = squares[:, None] + squares[None, :] - 2 * points @ points.T  # exact: the pixels are integers
    rank = distance * len(points) + np.arange(len(points))  # distinct keys: ties go to the smaller id
    np.fill_diagonal(rank, np.inf)
    nearest = np.argpartition(rank, neighbors - 1, axis=1)[:, :neighbors]
    joined = np.zeros(distance.shape, bool)
    joined[np.arange(len(points))[:, None], nearest] = True
    return np.stack(np.nonzero(joined | joined.T))
