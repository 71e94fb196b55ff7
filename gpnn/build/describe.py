"""What a dataset holds, in numbers, what would be chosen for it, and all choices side by side."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.build.objects import model_options, pipeline_of, resolve, resolve_structure
from gpnn.config import Config
from gpnn.data.features import slice_rows
from gpnn.data.labels import are_numbers, labelled_nodes
from gpnn.data.splits import homophily
from gpnn.data.tables.vocabulary import CategoryColumn, Column, TextColumn, Vocabulary
from gpnn.graph import Graph, as_graph
from gpnn.partition import PARTITIONERS, Partition, PartitionRow, compare_partitions
from gpnn.pipeline import LEARNED, resolve_options
from gpnn.schedule import SCHEDULES, Schedule
from gpnn.train.notes import Facts

if TYPE_CHECKING:
    from torch_geometric.data import Data


SHOWN = 20  # classes, edge types or columns that are listed one by one


def describe_data(config: Config, data: Data, facts: Facts | None = None) -> dict[str, Any]:
    """Nodes, edges by type, features, classes, splits, components and homophily of a graph, and GPNN's choices.

    Args:
        config: the settings to choose by.
        data: the graph.
        facts: of the graph, where they are known already.

    Returns:
        Name -> value; classes, edge types, columns and choices are mappings themselves.
    """
    graph, facts = as_graph(data), facts or Facts.of(data)
    components = graph.components()
    found: dict[str, Any] = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    if graph.edge_type is not None:
        sizes = torch.bincount(graph.edge_type, minlength=graph.num_edge_types).tolist()
        found["edges by type"] = _by_name(sizes, data.get("edge_type_names"))
    found |= {
        "weighted": graph.edge_weight is not None,
        "self-loops": int((graph.src == graph.dst).sum()),
        "edges without a reverse": facts.num_one_way,
        "isolated nodes": int(((graph.in_degree == 0) & (graph.out_degree == 0)).sum()),
        "components": int(components.max()) + 1,
        "largest component": int(torch.bincount(components).max()),
        **_features(data),
    }
    if data.get("y") is not None:
        found |= describe_labels(data, graph)
    return found | {"GPNN would choose": describe_choices(config, data)}


def _features(data: Data) -> dict[str, Any]:
    x, words = data.get("x"), data.get("vocabulary")
    if x is None:
        return {"features": 0}
    values = x if x.layout == torch.strided else x.values()
    filled = int(torch.count_nonzero(values)) / max(1, x.shape[0] * x.shape[1])
    found = {"features": x.shape[1], "share of non-zeros": filled}
    return found | ({"columns": _columns(words)} if words is not None and words.columns else {})


def _columns(words: Vocabulary) -> dict[str, Any]:
    kinds = {column.name: _kind(column) for column in words.columns[:SHOWN]}
    return kinds | ({"others": len(words.columns) - SHOWN} if len(words.columns) > SHOWN else {})


def _kind(column: Column) -> str:
    if isinstance(column, CategoryColumn):
        return f"{len(column.categories)} categories"
    if isinstance(column, TextColumn):
        return f"words, hashed to {column.width:,}"
    return ("date" if column.date else "number") + (", with gaps" if column.gaps else "")


def describe_labels(data: Data, graph: Graph) -> dict[str, Any]:
    """Classes or numbers, splits, and how alike neighbours are along the edges of a graph of the same nodes."""
    found: dict[str, Any] = {"labelled nodes": int(labelled_nodes(data.y).sum())}
    own, alike = (_numbers if are_numbers(data.y) else _classes)(data, graph)
    found |= own
    for split in ("train", "val", "test"):
        mask = data.get(f"{split}_mask")
        found[f"{split} nodes"] = 0 if mask is None else int(mask.sum())
    return found | alike


def _classes(data: Data, graph: Graph) -> tuple[dict[str, Any], dict[str, Any]]:
    """Classes and their sizes; and how alike neighbours are."""
    sizes = _by_name(_class_sizes(data.y, data.num_classes), data.get("class_names"))
    alike = homophily(data.y, graph, labelled_nodes(data.y))
    return {"classes": data.num_classes, "nodes by class": sizes}, {"homophily (edges within a class)": alike}


def _numbers(data: Data, graph: Graph) -> tuple[dict[str, Any], dict[str, Any]]:
    """The range of the numbers to predict; and how alike neighbours are."""
    known = data.y[labelled_nodes(data.y)]
    if not len(known):
        return {"numbers": {}}, {}
    measures = {
        "least": known.min(),
        "mean": known.mean(),
        "largest": known.max(),
        "deviation": known.std(correction=0),
    }
    both = labelled_nodes(data.y[graph.src]) & labelled_nodes(data.y[graph.dst]) & (graph.src != graph.dst)
    ends = torch.stack([data.y[graph.src[both]], data.y[graph.dst[both]]])
    alike = float(torch.corrcoef(ends)[0, 1]) if int(both.sum()) > 1 else None
    return {"numbers": {name: float(value) for name, value in measures.items()}}, {"correlation of neighbours": alike}


def describe_choices(config: Config, data: Data) -> dict[str, Any]:
    """The sizes and the kind of model of a training; without labels, of its partition and schedule only."""
    labelled = data.get("y") is not None and bool(labelled_nodes(data.y).any())
    chosen = resolve_structure(resolve(config, data) if labelled else config, data)
    choices: dict[str, Any] = {
        "partition": chosen.partition.method,
        "subgraphs": chosen.partition.k,
        "schedule": chosen.schedule.name,
        "rounds": chosen.schedule.rounds,
    }
    if labelled:
        options = resolve_options(model_options(chosen), has_features=data.get("x") is not None)
        choices |= {"model input": options["input"], "cell": options["cell"]}
        choices["hidden channels"] = chosen.model.hidden_channels
    return choices


def _by_name(sizes: list[int], names: Any) -> dict[str, int]:
    """The first sizes by their names, and the sum of the others."""
    labels = [str(number if names is None else names[number]) for number in range(len(sizes))]
    found = dict(zip(labels[:SHOWN], sizes[:SHOWN]))
    return found | ({f"the other {len(sizes) - SHOWN}": sum(sizes[SHOWN:])} if len(sizes) > SHOWN else {})


def _class_sizes(y: Tensor, num_classes: int) -> list[int]:
    if y.dim() == 2:
        return (y > 0).sum(0).tolist()
    return torch.bincount(y[y >= 0], minlength=num_classes).tolist()


def build_schedules(config: Config, data: Data) -> tuple[dict[str, Schedule], dict[str, str], Partition | None]:
    """Every schedule that the graph allows, why it does not allow the others, and the partition that they share.

    Options stay with the schedule that they were given to.

    Raises:
        ValueError: when the configured schedule is one of the others.
    """
    part = pipeline_of(_named(config, "partitioned")).divide(data)
    schedules, refused = {}, {}
    for name in SCHEDULES:
        try:
            schedules[name] = pipeline_of(_named(config, name)).make_schedule(data, part)
        except ValueError as error:
            if name == config.schedule.name:
                raise
            refused[name] = str(error)
    return schedules, refused, part


def build_partitions(config: Config, data: Data) -> list[PartitionRow]:
    """A row per partitioner of the graph alone: the configured one, with its options, first."""
    chosen = config.partition
    others = [name for name in PARTITIONERS if name not in (chosen.method, "given", "auto")]
    if chosen.method == LEARNED:
        first = [PartitionRow(LEARNED, left_out="it is trained; run it by itself")]
        return first + compare_partitions(data, int(chosen.k), others, config.seed)
    methods = {chosen.method: chosen.options, **{name: {} for name in others}}
    return compare_partitions(data, int(chosen.k), methods, config.seed)


def _named(config: Config, name: str) -> Config:
    """The configuration with another schedule, without options."""
    if name == config.schedule.name:
        return config
    return replace(config, schedule=replace(config.schedule, name=name, options={}))


SAMPLE_ROWS, SAMPLE_EDGES = 64, 4096  # in each of 256 ranges


def describe_stored(config: Config, data: Data) -> dict[str, Any]:
    """What :func:`describe_data` gives, of a converted graph: from headers, nodes, and samples of edges and features.

    Args:
        config: the settings to choose by.
        data: the graph, with `graph` over mapped rows.
    """
    graph, rows = data.graph, data.graph.rows
    degree = graph.in_degree
    found: dict[str, Any] = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    if graph.edge_type is not None:
        found["edge types"] = len(data.edge_type_names)
    found |= {
        "weighted": graph.edge_weight is not None,
        "symmetric": rows.symmetric,
        "nodes without an edge into them": int((degree == 0).sum()),
        "most edges into a node": int(degree.max()),
    }
    sampled = copy(data)
    if data.get("x") is not None:
        first, last = _spaced(len(data.x), SAMPLE_ROWS)
        sampled.x = torch.cat([slice_rows(data.x, slice(a, b)).to_dense() for a, b in zip(first, last)])
        found |= {"features": data.x.shape[1], "type of the features": str(data.x.dtype).removeprefix("torch.")}
        found["share of non-zeros (sample)"] = float((sampled.x != 0).float().mean())
    if data.get("y") is not None:
        found |= {
            f"{name}{_sampled(name)}": value for name, value in describe_labels(data, _sample_edges(graph)).items()
        }
    return found | {"GPNN would choose": describe_choices(config, sampled)}


def _sampled(name: str) -> str:
    return " (sample)" if name.startswith(("homophily", "correlation")) else ""


def _sample_edges(graph: Graph) -> Graph:
    """The same nodes with evenly spaced edges."""
    assert graph.rows is not None
    edges = torch.cat([torch.arange(a, b) for a, b in zip(*_spaced(graph.num_edges, SAMPLE_EDGES))])
    receivers = torch.searchsorted(graph.rows.ptr, edges, right=True) - 1
    return Graph(graph.rows.col[edges].long(), receivers, graph.num_nodes)


def _spaced(length: int, each: int) -> tuple[list[int], list[int]]:
    """Where 256 evenly spaced ranges of at most `each` begin and end."""
    bounds = torch.linspace(0, length, 257, dtype=torch.float64).long().tolist()
    return bounds[:-1], [min(end, start + each) for start, end in pairwise(bounds)]
