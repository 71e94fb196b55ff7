"""Planetoid, transductive: a free embedding of each node beside its features (Yang, Cohen and Salakhutdinov 2016)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from experiments.baselines.contexts import Contexts, Triples
from experiments.baselines.planetoid import JointClassifier, NodeTable, loss_against_all, rows_of, train_classifier
from experiments.baselines.visible import feature_matrix, labelled, neighbours

if TYPE_CHECKING:
    from torch_geometric.data import Data

CHUNK = 10_000  # walks whose triples are held at one time
WALKS, PAIRS = 100, 200  # of a batch of walks, and of a step of the softmax: the released code's


def planetoid_transductive(
    data: Data,
    *,
    seed: int = 0,
    channels: int = 50,
    walk_length: int = 10,
    window: int = 3,
    negatives: int = 5,
    walk_rounds: int = 10,
    label_pairs: int = 200_000,
    context_rate: float = 0.01,
    learning_rate: float = 0.1,
    batch_size: int = 200,
    steps: int = 2000,
    patience: int = 50,
    use_features: bool = True,
) -> Tensor:
    """Class probabilities from embeddings that foretell contexts and, with the features, classes, `[N, C]`.

    Planetoid-T of Yang et al. 2016, section 3.2. Width, walks, window, batch, step sizes and the 200,000 label pairs
    (2,000 batches of 100) are the defaults of the released code (github.com/kimiyoung/planetoid), which first trains
    the embeddings on label contexts and then on walks, then classifier and embeddings together. Contexts are told from
    `negatives` drawn ones (negative sampling, as in the paper) where that code's default is a softmax over all nodes
    (`negatives=0`), so that large graphs are in reach; `walk_rounds` was chosen for that here. On NELL the authors
    leave the features out (section 4.3), and `context_rate=0.1` is needed: a rarely visited node moves too little at
    0.01.

    Args:
        data: edges, labels, and features if any.
        seed: of everything random.
        channels: width of the embeddings.
        walk_length: steps of a walk, q.
        window: d.
        negatives: contexts drawn against each true one; 0: all nodes stand against it, by a softmax.
        walk_rounds: walks from each node.
        label_pairs: pairs of training nodes of one class.
        context_rate: step size of the context loss.
        learning_rate: step size of the class loss.
        batch_size: training nodes in a step.
        steps: the most steps.
        patience: looks (every 20 steps) without improvement after which to stop.
        use_features: whether classes follow from the features too, where there are any, or from embeddings alone.
    """
    x = None if data.get("x") is None or not use_features else feature_matrix(data, "planetoid_transductive")
    generator = torch.Generator().manual_seed(seed)
    source = Contexts.of(
        neighbours(data),
        labelled(data, "train"),
        walk_length=walk_length,
        window=window,
        negatives=negatives,
        seed=seed,
    )
    table = NodeTable(data.num_nodes, channels, generator)
    learn = _learn_contexts if negatives else _learn_softmax
    learn(table, source, walk_rounds, label_pairs, context_rate)
    classifier = JointClassifier(0 if x is None else x.shape[1], channels, data.num_classes, generator)

    def logits_of(nodes: np.ndarray | None) -> list[Tensor]:
        ids = torch.arange(data.num_nodes) if nodes is None else torch.from_numpy(nodes)
        return classifier(rows_of(x, nodes), table(ids))

    return train_classifier(
        nn.ModuleList([table, classifier]),
        logits_of,
        data,
        learning_rate=learning_rate,
        batch_size=batch_size,
        steps=steps,
        patience=patience,
        rng=source.rng,
    )


def _learn_contexts(table: NodeTable, source: Contexts, rounds: int, label_pairs: int, rate: float) -> None:
    """Train the embeddings to tell contexts: of labels first, of walks then; a step for each triple."""
    from experiments.baselines.contexts_kernel import descend_triples

    embedding = table.weight.detach().numpy()
    context = np.zeros_like(embedding)
    if label_pairs:
        triples = source.from_labels(label_pairs)
        descend_triples(*triples, source.rng.permutation(len(triples.sign)), embedding, context, np.float32(rate))
    for _ in range(rounds):
        order = source.rng.permutation(len(embedding))
        for start in range(0, len(order), CHUNK):
            triples = source.from_walks(order[start : start + CHUNK])
            descend_triples(*triples, source.rng.permutation(len(triples.sign)), embedding, context, np.float32(rate))


def _learn_softmax(table: NodeTable, source: Contexts, rounds: int, label_pairs: int, rate: float) -> None:
    """The same with contexts told from all nodes; a step for each 200 pairs, along the sum of their gradients."""
    nodes, channels = table.weight.shape
    context = NodeTable(nodes, channels, torch.Generator().manual_seed(int(source.rng.integers(2**31))))
    optimizer = torch.optim.SGD([table.weight, context.weight], lr=rate)

    def learn(triples: Triples) -> None:
        for start in range(0, len(triples.sign), PAIRS):
            part = Triples(*(each[start : start + PAIRS] for each in triples))
            loss = loss_against_all(table(torch.from_numpy(part.node)), context, part)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    learn(source.from_labels(label_pairs))
    for _ in range(rounds):
        order = source.rng.permutation(len(table.weight))
        for start in range(0, len(order), WALKS):
            learn(source.from_walks(order[start : start + WALKS]))
