"""partition_graph with every method: those of the graph alone, and the one that is trained with a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor

from gpnn.check import check_choice, check_count, check_options
from gpnn.graph import GraphLike, as_graph
from gpnn.partition import PARTITIONERS, Partition
from gpnn.partition import partition_graph as partition_structure
from gpnn.partition.partition_graph import partition_options
from gpnn.pipeline import LEARNED, Pipeline
from gpnn.train.learn_partition import PartitionRecipe

METHODS = (*PARTITIONERS, LEARNED)


def method_options(method: str) -> Mapping[str, Parameter]:
    """The options of a method, by name.

    >>> list(method_options("flood_fill"))
    ['leftover']
    """
    return signature(PartitionRecipe).parameters if method == LEARNED else partition_options(method)


def partition_graph(graph: GraphLike, k: int, method: str = "flood_fill", seed: int = 0, **options: Any) -> Partition:
    """Divide the nodes of `graph` into `k` subgraphs, by a method of the graph alone or by one that is trained.

    Args:
        graph: anything that :func:`gpnn.graph.as_graph` accepts.
        k: number of subgraphs K.
        method: a name in :data:`gpnn.partition.PARTITIONERS`, as :func:`gpnn.partition.partition_graph` has it; or
            "learned": trained together with a linear classifier, where a `Data` has training nodes
            (:func:`gpnn.train.learn_partition.learn_partition`). `gpnn train` and the estimators train it with the
            model and the schedule that they are given.
        seed: the same seed gives the same partition.
        **options: `train_mask`, and the options of the method; of "learned" those of
            :class:`gpnn.train.learn_partition.PartitionRecipe`.

    Raises:
        ValueError: for an unknown method or option, or a k that the method cannot reach.

    >>> from gpnn import Graph
    >>> ring = Graph([0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3], num_nodes=4)
    >>> partition_graph(ring, 2, method="learned", seed=0).sizes.tolist()
    [2, 2]
    """
    check_choice("method", method, METHODS)
    if method != LEARNED:
        return partition_structure(graph, k, method, seed, **options)
    return _learn(graph, check_count("k", k), seed, options.pop("train_mask", None), options)


def _learn(graph: GraphLike, k: int, seed: int, train_mask: Tensor | None, options: dict[str, Any]) -> Partition:
    from torch_geometric.data import Data

    structure = as_graph(graph)
    if k > structure.num_nodes:
        raise ValueError(f"`k` must be at most the {structure.num_nodes} nodes. Got {k}.")
    check_options(repr(LEARNED), options, ["train_mask", *method_options(LEARNED)])
    data = graph if isinstance(graph, Data) else None
    if data is None:
        data = Data(edge_index=torch.stack([structure.src, structure.dst]), num_nodes=structure.num_nodes)
    if train_mask is not None:
        data = data.clone().update({"train_mask": train_mask})
    pipeline = Pipeline(
        partition=LEARNED,
        k=k,
        partition_options=options,
        normalization="split",
        self_loops=True,
        model_options={"cell": "linear"},
        seed=seed,
    )
    return pipeline.make_partition(data)
