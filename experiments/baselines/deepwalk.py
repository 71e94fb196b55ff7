"""DeepWalk: skip-gram over random walks, then logistic regression (Perozzi, Al-Rfou and Skiena 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.baselines.selection import as_choices
from experiments.baselines.softmax_regression import choose_softmax
from experiments.baselines.visible import neighbours
from gpnn.check import install_command

if TYPE_CHECKING:
    from torch_geometric.data import Data

TRAINERS = ("own", "gensim")


def deepwalk(
    data: Data,
    *,
    seed: int = 0,
    channels: int = 64,
    num_walks: int = 10,
    walk_length: int = 40,
    window: int = 5,
    strength: float | Sequence[float] = (0.01, 0.1, 1.0, 10.0),
    trainer: str = "own",
) -> Tensor:
    """Class probabilities by softmax regression on embeddings that never saw a label, `[N, C]`.

    Perozzi et al. 2014, Algorithms 1 and 2, with the defaults of the released code (github.com/phanein/deepwalk): ten
    walks of 40 nodes from every node, window 5, 64 channels. (The paper's experiments take 80 walks, window 10 and 128
    channels, at some thirty times the cost.) Negative sampling stands in for hierarchical softmax.

    Args:
        data: edges and labels; features are not used.
        seed: of the walks and of the embeddings.
        channels: width of the embeddings, d.
        num_walks: walks from every node, γ.
        walk_length: nodes of a walk, t.
        window: w.
        strength: inverse of the L2 penalty of the regression, or several to choose from on the validation nodes.
        trainer: "own": :func:`~experiments.baselines.skip_gram.train_skip_gram`; "gensim": its Word2Vec, with
            hierarchical softmax as in the released code.

    Raises:
        ValueError: when the trainer is unknown, or is gensim and that is not installed.
    """
    from experiments.baselines.skip_gram import train_skip_gram
    from experiments.baselines.walks import draw_rounds
    from gpnn.partition.kernels import stream

    if trainer not in TRAINERS:
        raise ValueError(f"`trainer` must be one of {', '.join(TRAINERS)}. Got {trainer!r}.")
    adjacency = neighbours(data)
    walks = draw_rounds(adjacency.indptr, adjacency.indices, num_walks, walk_length, stream(seed))
    train = train_skip_gram if trainer == "own" else _train_gensim
    embedding = train(walks, data.num_nodes, channels=channels, window=window, seed=seed)
    scaled = embedding / np.maximum(np.abs(embedding).std(), 1e-12)
    model = choose_softmax(scaled, data, as_choices(strength))
    return torch.from_numpy(model.probabilities(scaled)).float()


def _train_gensim(walks: np.ndarray, num_nodes: int, *, channels: int, window: int, seed: int) -> np.ndarray:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        mend = install_command("baselines")
        raise ValueError(f'`trainer="gensim"` must find gensim ({mend}). Got none.') from None
    sentences = [[str(node) for node in walk if node >= 0] for walk in walks.tolist()]
    options = {"vector_size": channels, "window": window, "min_count": 0, "sg": 1, "hs": 1, "negative": 0, "epochs": 1}
    vectors = Word2Vec(sentences, **options, workers=1, seed=seed).wv
    return np.stack([vectors[str(node)] for node in range(num_nodes)])
