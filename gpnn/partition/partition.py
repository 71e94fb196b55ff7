"""Partition: the nodes of a graph divided into disjoint subgraphs."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_count
from gpnn.csr import compress, pointers
from gpnn.graph import GraphLike
from gpnn.notebook import bars_html
from gpnn.storage.atomic import replace_file
from gpnn.storage.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    from gpnn.partition.quality import Quality

MOST_BARS = 100  # subgraphs that a notebook shows


@dataclass(frozen=True, eq=False)
class Partition:
    """Which of `num_parts` subgraphs each node belongs to; it checks itself when it is made.

    A part may be empty: `ptr` then repeats. Flood fill and `refined` never return one; the user's own labels and
    `metis` may.

    Attributes:
        labels: part of each node, int64, `[N]`.
        num_parts: number of parts K.
        arrangement: the nodes grouped by part, neighbours close to each other, `[N]`; a plan's rows follow it, so that
            what a row reads is likely in cache. None: ascending within a part.

    Raises:
        ValueError: naming the constraint and the offending value.

    >>> part = Partition([1, 0, 1], num_parts=2)
    >>> part.order.tolist(), part.ptr.tolist()
    ([1, 0, 2], [0, 1, 3])
    """

    labels: Tensor
    num_parts: int
    arrangement: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _check_labels(self.labels))
        object.__setattr__(self, "num_parts", check_count("num_parts", self.num_parts))
        low, high = (int(bound) for bound in torch.aminmax(self.labels))
        if low < 0 or high >= self.num_parts:
            bad = low if low < 0 else high
            raise ValueError(f"`labels` must lie from 0 to {self.num_parts - 1}. Got {bad}.")
        if self.arrangement is not None:
            _check_arrangement(self.arrangement, self.labels)

    def __repr__(self) -> str:
        return f"Partition(num_nodes={self.num_nodes}, num_parts={self.num_parts})"

    def _repr_html_(self) -> str:
        sizes = self.sizes.sort(descending=True).values[:MOST_BARS].tolist()
        return f"{self!r}<br>" + bars_html(sizes, "nodes of the largest subgraphs")

    @property
    def num_nodes(self) -> int:
        return self.labels.numel()

    @cached_property
    def sizes(self) -> Tensor:
        """Number of nodes in each part, `[K]`."""
        return torch.bincount(self.labels, minlength=self.num_parts)

    @cached_property
    def ptr(self) -> Tensor:
        """Part p owns `order[ptr[p]:ptr[p + 1]]`, int64, `[K + 1]`."""
        return pointers(self.sizes)

    @cached_property
    def order(self) -> Tensor:
        """The nodes grouped by part, as they are arranged within it, int64, `[N]`."""
        if self.arrangement is not None:
            return self.arrangement.long()
        labels = self.labels.numpy()
        nodes = torch.arange(self.num_nodes).numpy()
        return torch.from_numpy(compress(labels, nodes, self.num_parts, with_edge=False).index).long()

    def quality(self, graph: GraphLike, train_mask: Tensor | None = None) -> Quality:
        """How well the partition suits `graph`: cut, balance, halo, conductance, training labels.

        Args:
            graph: the graph that was partitioned.
            train_mask: bool `[N]`; without it a `Data`'s own `train_mask` or labels are used.
        """
        from gpnn.partition.quality import measure

        return measure(self, graph, train_mask)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the partition to `path`: safetensors, or METIS's text when the name ends in `.part.K`."""
        _write(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Partition:
        """Read a partition that :meth:`save` or METIS wrote; nothing is unpickled."""
        return _read(path)


def _check_labels(labels: Any) -> Tensor:
    labels = torch.as_tensor(labels).detach().cpu()
    if labels.dim() != 1 or labels.numel() == 0:
        raise ValueError(f"`labels` must have shape [N] with N at least 1. Got {list(labels.shape)}.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"`labels` must hold integers. Got {str(labels.dtype).removeprefix('torch.')}.")
    return labels.long().contiguous()


def _check_arrangement(arrangement: Tensor, labels: Tensor) -> None:
    if arrangement.shape != labels.shape or arrangement.is_floating_point():
        raise ValueError(f"`arrangement` must hold {len(labels)} nodes. Got {list(arrangement.shape)}.")
    nodes = arrangement.long()
    if int(nodes.min()) < 0 or int(nodes.max()) >= len(labels) or bool((nodes.bincount() != 1).any()):
        raise ValueError("`arrangement` must hold every node once. Got one twice, or one that is not there.")
    if bool((labels[nodes].diff() < 0).any()):
        raise ValueError("`arrangement` must group the nodes by part. Got a part after a later one.")


MOST_EMPTY = 1 << 20  # parts that a file may declare beyond its nodes: a declared number costs memory
_METIS_NAME = re.compile(r"\.part\.(\d+)$")


def _write(partition: Partition, path: str | PathLike[str]) -> None:
    """Write `partition` so that a kill leaves the old file or the new one.

    Raises:
        ValueError: when a `.part.K` name states another K than the partition has, or the name ends otherwise.
        OSError: when the disk is full or the folder cannot be written.
    """
    path = Path(path)
    if named := _METIS_NAME.search(path.name):
        if named[1] != str(partition.num_parts):
            raise ValueError(f"`{path.name}` must end in .part.{partition.num_parts}. Got .part.{named[1]}.")
        replace_file(path, lambda partial: np.savetxt(partial, partition.labels.numpy(), fmt="%d"))
    elif path.suffix != ".safetensors":
        raise ValueError(
            f"A partition file must end in .safetensors or .part.{partition.num_parts}. Got {path.name!r}."
        )
    else:
        tensors = {"labels": partition.labels.to(torch.int32)}
        if partition.arrangement is not None:
            tensors["arrangement"] = partition.arrangement
        write_tensors(path, tensors, {"num_parts": partition.num_parts})


def _read(path: str | PathLike[str]) -> Partition:
    """The partition in a saved file, or in a METIS `.part.K` file (one part per line, from 0).

    Raises:
        ValueError: when the file is neither.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"`path` must name a partition file. Got {str(path)!r}, which is not a file.")
    if named := _METIS_NAME.search(path.name):
        labels, num_parts, arrangement = _read_metis(path), int(named[1][:19]), None
    else:
        labels, num_parts, arrangement = _read_saved(path)
    if num_parts > len(labels) + MOST_EMPTY:
        raise ValueError(f"{path.name} must state a number of parts near its {len(labels)} nodes. Got {num_parts}.")
    return Partition(labels, num_parts, arrangement)


def _read_metis(path: Path) -> torch.Tensor:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns when it stops before the end
            labels = np.fromstring(path.read_text(), dtype=np.int64, sep="\n")
    except (DeprecationWarning, ValueError, UnicodeDecodeError):
        raise ValueError(f"{path.name} must hold one integer per line. Got something else.") from None
    return torch.from_numpy(labels)


def _read_saved(path: Path) -> tuple[Tensor, int, Tensor | None]:
    tensors, description = read_tensors(path, "a saved partition or end in .part.K")
    num_parts = description.get("num_parts")
    if "labels" not in tensors or type(num_parts) is not int:
        raise ValueError(f"{path.name} must hold `labels` and their `num_parts`. Got neither or one.")
    return tensors["labels"], num_parts, tensors.get("arrangement")
