"""Planetoid, inductive: embeddings that are a function of the features (Yang, Cohen and Salakhutdinov 2016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from experiments.baselines.contexts import Contexts, Triples
from experiments.baselines.descent import make_optimizer
from experiments.baselines.planetoid import (
    JointClassifier,
    NodeTable,
    loss_against_all,
    loss_against_drawn,
    train_classifier,
)
from experiments.baselines.sparse_rows import RowLinear, SparseRows
from experiments.baselines.visible import feature_matrix, labelled, neighbours

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data


def planetoid_inductive(
    data: Data,
    *,
    seed: int = 0,
    channels: int = 50,
    walk_length: int = 10,
    window: int = 3,
    negatives: int = 5,
    walk_batches: int = 400,
    label_batches: int = 1000,
    walks: int = 20,
    label_pairs: int = 200,
    context_rate: float = 0.001,
    context_optimizer: str = "sgd",
    context_nodes: str = "all",
    context_share: float = 0.1,
    learning_rate: float = 0.1,
    batch_size: int = 200,
    steps: int = 2000,
    patience: int = 50,
) -> Tensor:
    """Class probabilities from features by way of an embedding that foretells contexts, `[N, C]`.

    Planetoid-I of Yang et al. 2016, section 3.3: e = ReLU(x W + b). Width, walks, window, batches, step sizes and the
    one context batch in ten steps are the defaults of the released code (github.com/kimiyoung/planetoid); its 10,000
    batches of 20 label pairs are 1,000 of 200 here. Contexts are told from `negatives` drawn ones (negative sampling,
    as in the paper) where that code's default is a softmax over all nodes (`negatives=0`). A node's class follows from
    its features alone. That code learns contexts only of nodes that have features; where the others were given a
    column each, as on NELL, `context_nodes="shared"` leaves them out.

    Args:
        data: with features.
        seed: of everything random.
        channels: width of the embeddings.
        walk_length: steps of a walk, q.
        window: d.
        negatives: contexts drawn against each true one; 0: all nodes stand against it, by a softmax.
        walk_batches: batches of walks before the classes are learnt.
        label_batches: batches of label pairs before that.
        walks: walks in a batch.
        label_pairs: pairs of training nodes of one class in a batch.
        context_rate: step size of the context loss, which is summed over a batch.
        context_optimizer: how its gradient is followed, "sgd" or "adagrad".
        context_nodes: whose contexts are learnt: "all", or "shared": nodes that have a feature in common with another.
        context_share: the chance of a batch of walks before each step of the class loss.
        learning_rate: step size of the class loss.
        batch_size: training nodes in a step.
        steps: the most steps.
        patience: looks (every 20 steps) without improvement after which to stop.

    Raises:
        ValueError: when `context_optimizer` or `context_nodes` is unknown.
    """
    x = feature_matrix(data, "planetoid_inductive")
    learnt = _learnt_nodes(x, context_nodes)
    generator = torch.Generator().manual_seed(seed)
    source = Contexts.of(
        neighbours(data),
        labelled(data, "train"),
        walk_length=walk_length,
        window=window,
        negatives=negatives,
        seed=seed,
    )
    encoder = RowLinear(x.shape[1], channels, generator)
    table = NodeTable(data.num_nodes, channels, generator)
    optimizer = make_optimizer(context_optimizer, [*encoder.parameters(), *table.parameters()], context_rate)
    learner = _ContextLearner(x, encoder, table, optimizer, loss_against_drawn if negatives else loss_against_all)

    def learn_walks() -> None:
        starts = learnt[source.rng.integers(len(learnt), size=walks)]
        learner.step(source.from_walks(starts, learnt))

    for _ in range(label_batches):
        learner.step(source.from_labels(label_pairs))
    for _ in range(walk_batches):
        learn_walks()
    classifier = JointClassifier(x.shape[1], channels, data.num_classes, generator)

    def logits_of(nodes: np.ndarray | None) -> list[Tensor]:
        rows = SparseRows.of(x, nodes)
        return classifier(rows, torch.relu(encoder(rows)))

    def between() -> None:
        if source.rng.random() < context_share:
            learn_walks()

    return train_classifier(
        nn.ModuleList([encoder, classifier]),
        logits_of,
        data,
        learning_rate=learning_rate,
        batch_size=batch_size,
        steps=steps,
        patience=patience,
        rng=source.rng,
        between=between,
    )


def _learnt_nodes(x: scipy.sparse.csr_matrix, which: str) -> np.ndarray:
    """All nodes, or those that have a feature in common with another, sorted."""
    if which == "all":
        return np.arange(x.shape[0])
    if which != "shared":
        raise ValueError(f"`context_nodes` must be one of all, shared. Got {which!r}.")
    carriers = np.bincount(x.indices[x.data != 0], minlength=x.shape[1])
    nodes = np.flatnonzero((x != 0) @ (carriers > 1))
    return nodes if len(nodes) else np.arange(x.shape[0])


class _ContextLearner:
    """Steps along the gradient of a loss of contexts, with e a function of the features."""

    def __init__(
        self,
        x: scipy.sparse.csr_matrix,
        encoder: RowLinear,
        context: NodeTable,
        optimizer: torch.optim.Optimizer,
        loss: Callable[[Tensor, NodeTable, Triples], Tensor],
    ) -> None:
        self.x, self.encoder, self.context, self.optimizer, self.loss = x, encoder, context, optimizer, loss

    def step(self, triples: Triples) -> None:
        if not len(triples.sign):
            return
        nodes, place = np.unique(triples.node, return_inverse=True)
        embedding = torch.relu(self.encoder(SparseRows.of(self.x, nodes)))[torch.from_numpy(place)]
        loss = self.loss(embedding, self.context, triples)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
