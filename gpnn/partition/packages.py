"""METIS (through pymetis, the extra `metis`) and Mt-KaHyPar (the extra `partition`): partitioners of other packages."""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice, check_range, import_extra
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


def mtkahypar(
    graph: Graph,
    k: int,
    *,
    seed: int = 0,
    train_nodes: Tensor | None = None,
    balance: str = "nodes",
    imbalance: float = 0.03,
) -> Partition:
    """Divide the graph into k parts of nearly equal weight that cut few edges (Gottesbüren et al. 2021).

    Its deterministic preset gives the same parts for any number of threads but has no seed: the seed
    permutes the nodes. The package accepts edges as Python pairs, about 200 bytes each.

    Args:
        graph: the graph; directions, self-loops and repeated edges are treated as in `metis`.
        seed: of the order of the nodes.
        balance: what is balanced: "nodes", or "edges" (a node weighs its degree).
        imbalance: how far above the mean a part may lie.

    Raises:
        ValueError: for an unknown balance, a negative imbalance, or where mtkahypar is not installed.
    """
    from gpnn.partition.neighbours import distinct_neighbours, edge_ends

    check_choice("balance", balance, BALANCE)
    check_range("imbalance", imbalance, 0)
    package = import_extra("mtkahypar", "partition", 'The method "mtkahypar"')
    ptr, index, weight = distinct_neighbours(graph)
    place = np.random.default_rng(seed).permutation(graph.num_nodes)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(ptr))
    once = rows < index
    edges = np.stack([place[rows[once]], place[index[once]]], 1)
    load = np.ones(graph.num_nodes, np.int64)
    if balance == "edges":
        load[place] = np.maximum(edge_ends(ptr, weight), 1)
    started = _start(package)
    context = started.context_from_preset(package.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(k, imbalance, package.Objective.CUT)
    context.logging = False
    structure = started.create_graph(
        context, graph.num_nodes, len(edges), list(map(tuple, edges.tolist())), load.tolist(), weight[once].tolist()
    )
    labels = np.asarray(structure.partition(context).get_partition(), np.int64)
    return Partition(torch.from_numpy(labels[place]), k)


@cache
def _start(package: ModuleType) -> Any:
    """The package's thread pool, which it makes once per process."""
    return package.initialize(os.cpu_count() or 1)
