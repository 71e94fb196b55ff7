"""Splitters of nodes for scikit-learn's `cross_val_score` and `GridSearchCV`, and what each of them measures.

Both keep the graph whole: `cross_val_score(classifier, nodes, y, cv=splitter, params={"graph": data})` hides the labels
of the nodes held out, not their edges and features, as where a model labels the rest of the graph that it was trained
on. Neither measures how well it does on a graph that it has never seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from gpnn.check import check_count
from gpnn.data.arrays import encode_labels, encode_numbers
from gpnn.data.labels import labelled_nodes
from gpnn.divide import partition_graph
from gpnn.estimator.node_input import graph_of
from gpnn.partition import Partition
from gpnn.run.known_nodes import find_nodes

Fold = tuple[np.ndarray, np.ndarray]


@dataclass
class StratifiedNodeKFold:
    """Folds of labelled nodes drawn at random from the whole graph, each with the graph's shares of the classes.

    It measures how well labels that are missing here and there are filled in: nearly every node held out has labelled
    nodes close by. It is the easier of the two questions, and the right one where predictions are wanted for nodes all
    over the graph.

    Nodes without a label (−1, NaN, None or "") are in no fold. Nodes with several labels, or numbers, are drawn from
    all alike.

    Args:
        n_splits: number of folds.
        seed: of the draw.

    >>> folds = StratifiedNodeKFold(n_splits=2).split([0, 1, 2, 3, 4], ["a", "b", None, "a", "b"])
    >>> [sorted([*train.tolist(), *test.tolist()]) for train, test in folds]
    [[0, 1, 3, 4], [0, 1, 3, 4]]
    """

    n_splits: int = 5
    seed: int = 0

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[Fold]:
        """The places in `X` of the nodes to learn from and of those held out, for each fold.

        Args:
            X: the nodes, `[n]` or `[n, 1]`.
            y: their labels, `[n]` or `[n, C]`.
            groups: not used.
        """
        known, strata = _labelled(y)
        kind = KFold if strata is None else StratifiedKFold
        folds = kind(check_count("n_splits", self.n_splits, at_least=2), shuffle=True, random_state=self.seed)
        for train, test in folds.split(known, strata):
            yield known[train], known[test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits


@dataclass
class SubgraphKFold:
    """Folds of whole subgraphs of a partition: the nodes held out have few labelled nodes close by.

    It measures how well a model labels regions of the graph from which there is no label at all, by what it has learnt
    of features and edges elsewhere. It is the harder question, and the right one where labels come by region: by site,
    community or customer. Edges over the cut still join the regions; `partition_.quality(graph)` says how many.

    Subgraphs are dealt to the folds so that these have similar shares of the classes, as far as whole ones can.
    Unlabelled nodes are in no fold.

    Args:
        graph: the graph that `X` names nodes of: a PyG `Data` or `HeteroData`, or a :class:`gpnn.Graph`.
        n_splits: number of folds.
        partition: a name of :data:`gpnn.partition.PARTITIONERS`, or a :class:`gpnn.Partition`.
        k: number of subgraphs; None: four for each fold.
        seed: of the partition, and of the order in which subgraphs are dealt.

    >>> import gpnn
    >>> path = gpnn.Graph([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], num_nodes=6)
    >>> part = gpnn.partition_graph(path, 2, method="given", labels=[0, 0, 0, 1, 1, 1])
    >>> folds = SubgraphKFold(path, n_splits=2, partition=part).split(range(6), ["a", "b"] * 3)
    >>> sorted(test.tolist() for _, test in folds)
    [[0, 1, 2], [3, 4, 5]]
    """

    graph: Any
    n_splits: int = 5
    partition: str | Partition = "clustered"
    k: int | None = None
    seed: int = 0

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Fold]:
        """The places in `X` of the nodes to learn from and of those held out, for each fold.

        Args:
            X: the nodes, their ids or, where they have none, their rows, `[n]` or `[n, 1]`.
            y: their labels, `[n]` or `[n, C]`; None: all nodes count.
            groups: not used.
        """
        rows, part = find_nodes(graph_of(self.graph), X), self._divide()
        known, strata = (np.arange(len(rows)), None) if y is None else _labelled(y)
        num_splits = check_count("n_splits", self.n_splits, at_least=2)
        folds = (
            GroupKFold(num_splits, shuffle=True, random_state=self.seed)
            if strata is None
            else StratifiedGroupKFold(num_splits, shuffle=True, random_state=self.seed)
        )
        for train, test in folds.split(known, strata, part.labels.numpy()[rows[known]]):
            yield known[train], known[test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def _divide(self) -> Partition:
        if isinstance(self.partition, Partition):
            return self.partition
        k = 4 * self.n_splits if self.k is None else self.k
        return partition_graph(graph_of(self.graph), k, self.partition, self.seed)


def _labelled(y: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The places of labelled nodes, and what their folds are stratified by; None: nothing."""
    values = np.asarray(y)
    numbers = values.dtype.kind == "f" and bool((values % 1)[np.isfinite(values)].any())
    labels = encode_numbers(values) if numbers else encode_labels(values)[0]
    known = labelled_nodes(labels).numpy().nonzero()[0]
    return known, None if numbers or labels.dim() == 2 else labels[known].numpy()
