"""column_arguments: the sizes of a ColumnModel for a graph and its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpnn.check import check_choice
from gpnn.graph import as_graph
from gpnn.nn.columns.relations import MOST_TYPES, is_directed
from gpnn.train.examples import Examples
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

METHODS = ("auto", "linear", "trees")
FEW = 256  # features of which trees, and extremes over neighbours, are made
MOST_TREES, MOST_WORK = 2000, 1e10  # and rows × columns × trees: together some half a minute on two cores
MOST_ITERATIONS, LEAST_ITERATIONS = 200, 20
LEAST_LABELS = 50  # of fewer, trees learn little
KIND = {"classification": "class", "multi_label": "several", "regression": "number"}


def column_arguments(data: Data, *, hops: int = 2, method: str = "auto", labels: bool = True) -> dict[str, Any]:
    """The arguments of :class:`gpnn.nn.columns.ColumnModel` for a graph, as JSON holds them.

    Args:
        data: features, labels and masks.
        hops: how far labels are read, 1 or 2.
        method: "linear", "trees", or "auto": linear and, where features are few and labels are not, trees.
        labels: whether the training labels around a node are columns.

    Raises:
        ValueError: naming the option and the value.
    """
    check_choice("method", method, METHODS)
    x, graph, task = data.get("x"), as_graph(data), task_of(data)
    features = 0 if x is None else x.shape[1]
    num_labels = len(Examples.from_data(data).nodes["train"])
    kind, directed = KIND[task.name], is_directed(graph)
    num_types = graph.num_edge_types if graph.num_edge_types <= MOST_TYPES else 1
    few = features <= FEW
    width = (features * (1 + 3 * num_types * (1 + directed)) if few else 0) + 10
    outputs = 1 if kind == "number" or (kind == "class" and task.num_outputs == 2) else task.num_outputs
    iterations = int(min(MOST_ITERATIONS, MOST_TREES / outputs, MOST_WORK / (max(1, num_labels) * width * outputs)))
    grows = few and iterations >= LEAST_ITERATIONS and num_labels >= LEAST_LABELS
    solvers = {"linear": ["linear"], "trees": ["trees"], "auto": ["linear", "trees"] if grows else ["linear"]}[method]
    return {
        "in_channels": features,
        "out_channels": task.num_outputs,
        "num_types": num_types,
        "directed": directed,
        "hops": hops,
        "many": not few and method != "trees",
        "labels": kind,
        "num_labels": num_labels if labels else 0,
        "solvers": solvers,
        "iterations": max(LEAST_ITERATIONS, iterations),
    }
