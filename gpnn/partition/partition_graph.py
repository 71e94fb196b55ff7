"""partition_graph: the entry point to every partitioner, and the table of them; compare_partitions: side by side."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpnn.check import check_choice, check_count, check_options
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.pages import trim_heap
from gpnn.partition.clustered import clustered
from gpnn.partition.flood_fill import flood_fill
from gpnn.partition.packages import metis, mtkahypar
from gpnn.partition.partition import Partition, Quality, as_nodes, training_nodes
from gpnn.partition.refined import refined
from gpnn.partition.simple import components, given, random
from gpnn.partition.spectral import spectral

LARGE, HUGE = 100_000, 10_000_000  # nodes of the smallest large graph, and of the smallest that takes minutes to refine
UNEVEN, MOST = 5.0, 0.75  # the largest subgraph over the mean one, and its share of the nodes, that count as degenerate


def auto(
    graph: Graph,
    k: int,
    *,
    seed: int = 0,
    train_nodes: Tensor | None = None,
    leftover: str = "smallest",
    device: str = "cpu",
) -> Partition:
    """Flood fill below 100,000 nodes, where its cut costs little, if it is balanced; `clustered` from ten million on,
    where it is a tenth of the work; else `refined`.

    Args:
        leftover: of flood fill.
        device: of `clustered`.

    >>> auto(Graph([0, 1], [1, 0], num_nodes=2), 2).sizes.tolist()
    [1, 1]
    """
    if graph.num_nodes >= HUGE:
        return clustered(graph, k, seed=seed, train_nodes=train_nodes, device=device)
    if graph.num_nodes < LARGE:
        part = flood_fill(graph, k, seed=seed, train_nodes=train_nodes, leftover=leftover)
        if not is_degenerate(k, int(part.sizes.max()) / part.num_nodes):
            return part
    return refined(graph, k, seed=seed, train_nodes=train_nodes)


def is_degenerate(num_parts: int, largest: float) -> bool:
    """Whether the largest of several subgraphs, with this share of the nodes, is five times the mean, or most of all.

    >>> is_degenerate(10, 0.6), is_degenerate(2, 0.6)
    (True, False)
    """
    return num_parts > 1 and (largest * num_parts > UNEVEN or largest > MOST)


# Each is given the graph, the number of subgraphs K, the seed of its random choices and the labelled nodes `[C]`, None
# where they are unknown; further arguments are its options.
PARTITIONERS: dict[str, Callable[..., Partition]] = {
    "flood_fill": flood_fill,
    "refined": refined,
    "clustered": clustered,
    "spectral": spectral,
    "metis": metis,
    "mtkahypar": mtkahypar,
    "random": random,
    "components": components,
    "given": given,
    "auto": auto,
}


def partition_graph(graph: GraphLike, k: int, method: str = "flood_fill", seed: int = 0, **options: Any) -> Partition:
    """Divide the nodes of `graph` into `k` subgraphs.

    Training nodes, which flood fill draws its seeds from, are those of `train_mask` (an option, or a `Data`'s
    own), else those whose `y` is not -1, else unknown: then every node is a candidate.

    Args:
        graph: anything that :func:`gpnn.graph.as_graph` accepts.
        k: number of subgraphs K.
        method: a name in `PARTITIONERS`; "auto" is flood fill below 100,000 nodes, if it is balanced,
            `clustered` from ten million on, else `refined`.
        seed: the same seed gives the same partition.
        **options: `train_mask`, and the options of the method (see its docstring).

    Raises:
        ValueError: for an unknown method or option, or a k that the method cannot reach.

    >>> from gpnn import Graph
    >>> ring = Graph([0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3], num_nodes=4)
    >>> partition_graph(ring, 2, method="flood_fill", seed=0).sizes.tolist()
    [2, 2]
    """
    check_choice("method", method, PARTITIONERS)
    k = check_count("k", k)
    train_mask = options.pop("train_mask", None)
    train_nodes = training_nodes(graph) if train_mask is None else as_nodes(train_mask)
    structure = as_graph(graph)
    if train_mask is not None and train_mask.numel() != structure.num_nodes:
        raise ValueError(f"`train_mask` must have {structure.num_nodes} entries. Got {train_mask.numel()}.")
    if k > structure.num_nodes:
        raise ValueError(f"`k` must be at most the {structure.num_nodes} nodes. Got {k}.")
    check_options(repr(method), options, ["train_mask", *partition_options(method)])
    return PARTITIONERS[method](structure, k, seed=seed, train_nodes=train_nodes, **options)


def partition_options(method: str) -> dict[str, inspect.Parameter]:
    """The options of a partitioner, by name."""
    given = ("graph", "k", "seed", "train_nodes")
    parameters = inspect.signature(PARTITIONERS[method]).parameters
    return {key: value for key, value in parameters.items() if key not in given}


_WARM = 1200  # nodes that every method calls all its kernels for

Methods = Sequence[str] | Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class PartitionRow:
    """One partitioner's row of the table: measurements, or the reason why there are none.

    Attributes:
        method: its name in `PARTITIONERS`.
        seconds: wall time of the partition, compilation left out.
        peak_memory: bytes of resident memory above those before; None where the system does not report it.
        quality: what the partition costs.
        left_out: why the method gave no partition, or None.
    """

    method: str
    seconds: float | None = None
    peak_memory: int | None = None
    quality: Quality | None = None
    left_out: str | None = None


def compare_partitions(graph: GraphLike, k: int, methods: Methods | None = None, seed: int = 0) -> list[PartitionRow]:
    """One row per method, in the order given; a method that cannot divide this graph into k parts states why.

    Args:
        graph: anything that :func:`gpnn.graph.as_graph` accepts.
        k: number of subgraphs K.
        methods: names in `PARTITIONERS`, or name → options; None: all but "given" and "auto".
        seed: of every method.

    Raises:
        ValueError: for an unknown method.

    >>> ring = Graph([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4)
    >>> rows = compare_partitions(ring, 2, ["random", "components"])
    >>> rows[0].quality.num_parts, rows[1].left_out
    (2, '`k` must be at most the 1 connected components. Got 2.')
    """
    chosen = _choose(methods)
    return [_row(name, graph, k, seed, options) for name, options in chosen.items()]


def _choose(methods: Methods | None) -> dict[str, Mapping[str, Any]]:
    if methods is None:
        methods = [name for name in PARTITIONERS if name not in ("given", "auto")]
    chosen = dict(methods) if isinstance(methods, Mapping) else {name: {} for name in methods}
    for name in chosen:
        if name not in PARTITIONERS:
            raise ValueError(f"`methods` must be among {', '.join(PARTITIONERS)}. Got {name!r}.")
    return chosen


def _row(method: str, graph: GraphLike, k: int, seed: int, options: Mapping[str, Any]) -> PartitionRow:
    if method != "given":
        _warm_up(method)
    try:
        before = _reset_peak()
        began = time.perf_counter()
        partition = partition_graph(graph, k, method, seed, **options)
        seconds = time.perf_counter() - began
    except ValueError as error:
        return PartitionRow(method, left_out=str(error))
    peak = _peak()
    memory = None if before is None or peak is None else max(peak - before, 0)
    return PartitionRow(method, seconds, memory, partition.quality(graph))


def _warm_up(method: str) -> None:
    """Load packages and compiled kernels on a small graph, so that they are not counted."""
    nodes = torch.arange(_WARM)
    ring_and_node = Graph(nodes, (nodes + 1) % _WARM, num_nodes=_WARM + 1)
    try:
        partition_graph(ring_and_node, 2, method)
    except ValueError:  # an extra is missing: the caller's own call reports it
        return


def _reset_peak() -> int | None:
    """Reset the peak of resident memory (Linux only) and return the present bytes."""
    peak = Path("/proc/self/clear_refs")
    if not peak.exists():
        return None
    trim_heap()  # memory that was freed but kept would hide what the method allocates
    try:
        peak.write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _peak() -> int | None:
    return _status("VmHWM")


def _status(name: str) -> int | None:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")]
    return found[0] if found else None
