"""GraphFacts: what a graph is like, by its features, its edges and its training labels alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpnn.data.features import choose_scale, row_sums
from gpnn.data.labels import are_numbers, labelled_nodes
from gpnn.graph import Graph, as_graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

VARIED = 0.4  # deviation of rows' sums, as a share of their mean, from which on a row's length may tell something
LEAST_EDGES = 40  # between training nodes, that tell whether neighbours are alike: of fewer the share is chance


@dataclass(frozen=True)
class GraphFacts:
    """The facts that choose recipes.

    Attributes:
        num_nodes: N.
        num_columns: columns of the features, 0 without.
        density: share of the features that are not zero.
        mean_degree: edges per node.
        num_labels: labelled training nodes.
        labels_per_class: of them, by class; all of them where numbers are predicted.
        homophily: share of the edges between two training nodes whose ends share a class (any of their labels); None
            where there is no such edge, or numbers are predicted.
        num_validation: labelled validation nodes.
        assortativity: how far the homophily is above that of classes at random among the same ends, 1 at most and 0 for
            chance (adjusted homophily, Platonov et al. 2023); None where there are too few such edges to tell, or nodes
            have several labels.
        rows_differ: whether scaling each row to sum one takes away what its length may tell: no feature is negative,
            and the standard deviation of the rows' sums is more than 0.4 of their mean.
    """

    num_nodes: int
    num_columns: int
    density: float
    mean_degree: float
    num_labels: int
    labels_per_class: float
    homophily: float | None
    num_validation: int
    assortativity: float | None = None
    rows_differ: bool = False

    @classmethod
    def of(cls, data: Data) -> GraphFacts:
        """The facts of a checked `Data` with labels; labels of validation and test nodes are not read."""
        x, y, graph = data.get("x"), data.y, as_graph(data)
        train = split_mask(data, "train")
        width, num_labels = 0 if x is None else x.shape[1], int(train.sum())
        classes = 1 if are_numbers(y) else y.shape[1] if y.dim() == 2 else torch.unique(y[train]).numel()
        return cls(
            num_nodes=graph.num_nodes,
            num_columns=width,
            density=count_entries(x) / max(1, graph.num_nodes * width),
            mean_degree=graph.num_edges / max(1, graph.num_nodes),
            num_labels=num_labels,
            labels_per_class=num_labels / max(1, classes),
            homophily=None if are_numbers(y) else homophily(y, graph, train),
            num_validation=int(split_mask(data, "val").sum()),
            assortativity=None if are_numbers(y) or y.dim() == 2 else assortativity(y, graph, train),
            rows_differ=_rows_differ(x),
        )


def split_mask(data: Data, split: str) -> Tensor:
    """Whether each node is a labelled node of a split, bool `[N]`; a mask that is missing is empty."""
    known, mask = labelled_nodes(data.y), data.get(f"{split}_mask")
    return torch.zeros_like(known) if mask is None else known & mask


def homophily(y: Tensor, graph: Graph, known: Tensor) -> float | None:
    """The share of the edges between two known nodes whose ends share a class (any of their labels); None without.

    >>> homophily(torch.tensor([0, 0, 1]), Graph([0, 1], [1, 2], num_nodes=3), torch.tensor([True, True, True]))
    0.5
    """
    both = known[graph.src] & known[graph.dst] & (graph.src != graph.dst)
    src, dst = graph.src[both], graph.dst[both]
    if not src.numel():
        return None
    if y.dim() == 1:
        return float((y[src] == y[dst]).double().mean())
    same = torch.zeros_like(src, dtype=torch.bool)
    for label in (y > 0).unbind(1):  # a label at a time: [E, C] may be large
        same |= label[src] & label[dst]
    return float(same.double().mean())


def assortativity(y: Tensor, graph: Graph, known: Tensor) -> float | None:
    """(h − c) / (1 − c) for the homophily h and that of random pairs of the same ends, c; None for too few edges.

    >>> pairs = Graph([0, 2] * LEAST_EDGES, [1, 3] * LEAST_EDGES, num_nodes=4)
    >>> assortativity(torch.tensor([0, 0, 1, 1]), pairs, torch.ones(4, dtype=torch.bool))
    1.0
    """
    both = known[graph.src] & known[graph.dst] & (graph.src != graph.dst)
    if int(both.sum()) < LEAST_EDGES:
        return None
    share = torch.bincount(torch.cat([y[graph.src[both]], y[graph.dst[both]]])).double()
    alike, chance = homophily(y, graph, known), float((share / share.sum()).square().sum())
    return None if alike is None or chance == 1 else (alike - chance) / (1 - chance)


def _rows_differ(x: Tensor | None) -> bool:
    if x is None or choose_scale(x) == "none":
        return False
    total = row_sums(x)
    return bool(total.std(correction=0) > VARIED * total.mean())


def count_entries(x: Tensor | None) -> int:
    """Entries of the features that are not zero."""
    return 0 if x is None else int(torch.count_nonzero(x if x.layout == torch.strided else x.values()))
