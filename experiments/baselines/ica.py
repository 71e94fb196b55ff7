"""ICA: iterative classification with link features (Lu and Getoor 2003)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.baselines.selection import as_choices, choose_best
from experiments.baselines.softmax_regression import fit_softmax, spread
from experiments.baselines.visible import Labelled, feature_matrix, labelled, neighbours

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data


LINKS = ("count", "proportion")


def ica(
    data: Data,
    *,
    seed: int = 0,
    strength: float | Sequence[float] = (1.0, 10.0),
    link: str | Sequence[str] = LINKS,
    sweeps: int = 10,
) -> Tensor:
    """Class probabilities from a node's features and the classes of its neighbours, found in turns, `[N, C]`.

    Lu and Getoor 2003, with the count (or the share) of neighbours of each class as link features. A softmax
    regression of the features guesses every label; a second one, of features and links, is trained on the training
    nodes; then each other node in a random order takes the most likely class given its neighbours' classes of the
    moment, `sweeps` times. Links, bootstrap, order and ten sweeps are those of the code that Kipf and Welling 2017
    compare with (github.com/tkipf/ica), which takes strength 1 and counts unless told otherwise.

    Args:
        data: with features.
        seed: of the order.
        strength: inverse of the L2 penalty of both regressions, or several to choose from on the validation nodes.
        link: "count" or "proportion", or both to choose from.
        sweeps: how often every node is classified again.

    Raises:
        ValueError: when a link feature is unknown.
    """
    x, adjacency = feature_matrix(data, "ica"), neighbours(data)

    def candidates() -> Iterator[np.ndarray]:
        for kind in as_choices(link):
            weighted = _weigh(adjacency, kind)
            for each in as_choices(strength):
                yield _classify(x, weighted, data, seed, each, sweeps)

    return torch.from_numpy(choose_best(candidates(), data)).float()


def _classify(
    x: scipy.sparse.csr_matrix,
    adjacency: scipy.sparse.csr_matrix,
    data: Data,
    seed: int,
    strength: float,
    sweeps: int,
) -> np.ndarray:
    """The probabilities of one strength, `[N, C]`; training nodes have their own class."""
    from experiments.baselines.ica_kernel import sweep
    from gpnn.partition.kernels import stream

    train = labelled(data, "train")
    local = fit_softmax(x, train, data.num_classes, strength)
    guess = local.scores(x).argmax(1)  # places in `local.classes`
    guess[train.nodes] = np.searchsorted(local.classes, train.classes)
    one_hot = _one_hot(guess, len(local.classes))
    content, link = _relational(x, adjacency @ one_hot, train, data.num_classes, strength)
    others, state = np.setdiff1d(np.arange(data.num_nodes), train.nodes), stream(seed)
    scores = content.copy()
    for _ in range(sweeps):
        sweep(adjacency.indptr, adjacency.indices, adjacency.data, content, link, guess, others, scores, state)
    exponent = np.exp(scores - scores.max(1, keepdims=True))
    probabilities = exponent / exponent.sum(1, keepdims=True)
    probabilities[train.nodes] = one_hot[train.nodes].toarray()
    return spread(probabilities, local.classes, data.num_classes)


def _relational(
    x: scipy.sparse.csr_matrix, counts: scipy.sparse.csr_matrix, train: Labelled, num_classes: int, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    """What the features say of each node, `[N, c]`, and what a neighbour of each class adds, `[c, c]`."""
    from scipy.sparse import hstack

    model = fit_softmax(hstack([x, counts], format="csr"), train, num_classes, strength)
    is_link = model.columns >= x.shape[1]
    link = np.zeros((counts.shape[1], counts.shape[1]))
    link[model.columns[is_link] - x.shape[1]] = model.weight[is_link]
    content = np.asarray(x[:, model.columns[~is_link]] @ model.weight[~is_link]) + model.bias
    return content, link


def _weigh(adjacency: scipy.sparse.csr_matrix, link: str) -> scipy.sparse.csr_matrix:
    """The adjacency whose product with labels counts neighbours of each class, or gives their share."""
    if link not in LINKS:
        raise ValueError(f"`link` must be one of {', '.join(LINKS)}. Got {link!r}.")
    weighted, count = adjacency.copy(), np.diff(adjacency.indptr)
    share = np.ones(len(count)) if link == "count" else 1 / np.maximum(count, 1)
    weighted.data = np.repeat(share, count).astype(np.float32)
    return weighted


def _one_hot(places: np.ndarray, size: int) -> scipy.sparse.csr_matrix:
    from scipy.sparse import csr_matrix

    rows = np.arange(len(places))
    return csr_matrix((np.ones(len(places), np.float32), (rows, places)), (len(places), size))
