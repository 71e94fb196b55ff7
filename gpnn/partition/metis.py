"""METIS: multilevel k-way partitioning by Karypis and Kumar, through pymetis (the extra `metis`)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice, import_extra
from gpnn.graph import Graph
from gpnn.partition.partition import Partition

BALANCE = ("nodes", "edges")


def metis(
    graph: Graph, k: int, *, seed: int = 0, train_nodes: Tensor | None = None, balance: str = "nodes"
) -> Partition:
    """Divide the graph into k parts of nearly equal weight that cut few edges (Karypis and Kumar 1998).

    METIS needs simple undirected graphs and may crash on others: directions and self-loops are ignored,
    and edges between the same two nodes become one that weighs their number, so that what is minimised is the
    number of messages between parts.

    Args:
        seed: of METIS's random choices.
        balance: what is balanced: "nodes", or "edges" (a node weighs its degree).

    Raises:
        ValueError: for an unknown balance, or where pymetis is not installed.
    """
    from gpnn.partition.neighbours import distinct_neighbours, edge_ends

    check_choice("balance", balance, BALANCE)
    pymetis = import_extra("pymetis", "metis", 'The method "metis"')
    ptr, index, weight = distinct_neighbours(graph)
    options = pymetis.Options(seed=seed % (2**31 - 2) + 1)  # METIS reads 0 as 1
    _, labels = pymetis.part_graph(
        k,
        pymetis.CSRAdjacency(ptr, index),
        vweights=np.maximum(edge_ends(ptr, weight), 1) if balance == "edges" else None,
        eweights=None if (weight == 1).all() else weight,
        options=options,
    )
    return Partition(torch.from_numpy(np.asarray(labels, np.int64)), k)
