"""Contexts of Planetoid: triples (i, c, γ) from random walks and from shared labels (Yang et al. 2016, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from experiments.baselines.visible import Labelled

if TYPE_CHECKING:
    import scipy.sparse


class Triples(NamedTuple):
    """Node i, context c and γ = 1 where c belongs to i, −1 where it was drawn against it, `[T]` each."""

    node: np.ndarray
    context: np.ndarray
    sign: np.ndarray


@dataclass(frozen=True, eq=False)
class Contexts:
    """A source of triples.

    Attributes:
        adjacency: the neighbours, `[N, N]`.
        train: the nodes whose labels are shared.
        walk_length: steps of a walk, q.
        window: d.
        negatives: contexts drawn against each true one.
        rng: the source of label pairs and negatives.
        stream: the source of walks.
    """

    adjacency: scipy.sparse.csr_matrix
    train: Labelled
    walk_length: int
    window: int
    negatives: int
    rng: np.random.Generator
    stream: np.ndarray

    @classmethod
    def of(
        cls,
        adjacency: scipy.sparse.csr_matrix,
        train: Labelled,
        *,
        walk_length: int,
        window: int,
        negatives: int,
        seed: int,
    ) -> Contexts:
        """The source that a seed starts."""
        from gpnn.partition.kernels import stream

        rng = np.random.default_rng(seed)
        return cls(adjacency, train, walk_length, window, negatives, rng, stream(seed))

    def from_walks(self, starts: np.ndarray, learnt: np.ndarray | None = None) -> Triples:
        """The pairs in the windows of a walk from each of `starts`, and as negatives any nodes.

        Args:
            starts: where the walks begin.
            learnt: the nodes whose contexts are wanted, sorted; None: those of all nodes.
        """
        from experiments.baselines.walks import draw_walks, window_pairs

        parts = (self.adjacency.indptr, self.adjacency.indices, starts, self.walk_length + 1, self.stream)
        pairs = window_pairs(draw_walks(*parts), self.window)
        if learnt is not None and len(learnt) < self.adjacency.shape[0]:
            pairs = pairs[np.isin(pairs[:, 0], learnt)]
        against = self.rng.integers(self.adjacency.shape[0], size=len(pairs) * self.negatives)
        return self._join(pairs[:, 0], pairs[:, 1], against)

    def from_labels(self, count: int) -> Triples:
        """`count` pairs of training nodes of one class, and as negatives training nodes of other classes."""
        order = np.argsort(self.train.classes, kind="stable")
        nodes, classes = self.train.nodes[order], self.train.classes[order]
        first = np.searchsorted(classes, classes)  # where the class of each place begins
        size = np.searchsorted(classes, classes, side="right") - first
        if size[0] == len(nodes):  # one class: nothing to tell apart
            return Triples(*(np.empty(0, np.int64) for _ in range(3)))
        at = self.rng.integers(len(nodes), size=count)
        fellow = first[at] + (self.rng.random(count) * size[at]).astype(np.int64)
        again = np.repeat(at, self.negatives)
        other = (self.rng.random(len(again)) * (len(nodes) - size[again])).astype(np.int64)
        other += np.where(other >= first[again], size[again], 0)  # skip the class's own block
        return self._join(nodes[at], nodes[fellow], nodes[other])

    def _join(self, node: np.ndarray, context: np.ndarray, against: np.ndarray) -> Triples:
        sign = np.ones(len(node) + len(against), np.float32)
        sign[len(node) :] = -1
        return Triples(
            np.concatenate([node, np.repeat(node, self.negatives)]), np.concatenate([context, against]), sign
        )
