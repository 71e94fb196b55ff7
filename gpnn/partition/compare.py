"""Partitioners side by side: time, memory and quality on one graph."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpnn.graph import Graph, GraphLike
from gpnn.partition.partition_graph import PARTITIONERS, partition_graph
from gpnn.partition.quality import Quality

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
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)  # memory that was freed but kept would hide what the method allocates
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
