"""Task: what there is to learn on one graph, taken from PyG's `Data` and moved to one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.data.labels import labelled_nodes
from gpnn.graph import digest_edges
from gpnn.graph.convert import read_edges

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Task:
    """Features, targets and the labelled nodes of each split.

    Attributes:
        x: features `[N, F]`, dense or sparse CSR, or None.
        y: classes `[N]`, or 0/1 labels `[N, C]`; −1 (along the row) where a node is unlabelled.
        nodes: the ids of the labelled nodes of "train", "val" and "test", each maybe empty.
        num_classes: C.
    """

    x: Tensor | None
    y: Tensor
    nodes: dict[str, Tensor]
    num_classes: int

    @classmethod
    def from_data(cls, data: Data, device: torch.device | str = "cpu") -> Task:
        """The task of a checked `Data`; a mask that is missing is empty.

        Raises:
            ValueError: when there are no labels.
        """
        y = data.get("y")
        if y is None:
            raise ValueError("`data` must have labels `y` to learn from. Got none.")
        x = data.get("x")
        nodes = {split: _labelled(data, f"{split}_mask", y).to(device) for split in SPLITS}
        x = None if x is None else x.to(device)
        return cls(x, y.to(device), nodes, num_classes(data))

    @property
    def multi_label(self) -> bool:
        return self.y.dim() == 2

    def target(self, split: str) -> Tensor:
        """The targets of a split's nodes, `[M]` or `[M, C]`."""
        return self.y[self.nodes[split]]


def num_classes(data: Data) -> int:
    """The number of classes: `data.num_classes` where it is set, else what the labels show."""
    known: Any = data.get("num_classes")
    if known is not None:
        return int(known)
    y = data.y
    return y.shape[1] if y.dim() == 2 else int(y.max()) + 1


def _labelled(data: Data, name: str, y: Tensor) -> Tensor:
    mask = data.get(name)
    if mask is None:
        return torch.empty(0, dtype=torch.int64)
    return (mask & labelled_nodes(y)).nonzero().flatten()


def check_plan(data: Data, plan: Plan | None) -> None:
    """Raise ValueError where a plan has other rows than `data`, or was lowered from other edges.

    Nodes without edges, as a process of several has them, are compared by their number alone.
    """
    if plan is None:  # a model of its own that needs none
        return
    labels = data.get("y")
    if labels is not None and len(labels) != plan.num_nodes:
        raise ValueError(f"The plan must have the {len(labels)} nodes of `data`. Got one of {plan.num_nodes}.")
    if data.get("edge_index") is None or plan.edge_digest is None:
        return
    if digest_edges(*read_edges(data)).edges != plan.edge_digest:
        raise ValueError(
            f"The plan must be lowered from the edges of `data`. Got that of another graph of {plan.num_nodes} nodes."
        )
