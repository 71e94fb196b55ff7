"""Examples: features, targets and the labelled nodes of each split, taken from PyG's `Data` and moved to one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpnn.data.facts import split_mask
from gpnn.graph import digest_edges
from gpnn.graph.convert import read_edges

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Examples:
    """Features, targets and the labelled nodes of each split.

    Attributes:
        x: features `[N, F]`, dense or sparse CSR, or None.
        y: targets as :func:`gpnn.data.labels.check_labels` gives them.
        nodes: the ids of the labelled nodes of "train", "val" and "test", each maybe empty.
        weight: of each node in the training loss, `[N]`; None: all count alike.
    """

    x: Tensor | None
    y: Tensor
    nodes: dict[str, Tensor]
    weight: Tensor | None = None

    @classmethod
    def from_data(
        cls, data: Data, device: torch.device | str = "cpu", *, features: torch.device | str | None = None
    ) -> Examples:
        """The examples of a checked `Data`; a mask that is missing is empty.

        Args:
            data: features, labels and masks.
            device: where they are used.
            features: where features lie, or None: on `device`.

        Raises:
            ValueError: when there are no labels.
        """
        y = data.get("y")
        if y is None:
            raise ValueError("`data` must have labels `y` to learn from. Got none.")
        x, weight = data.get("x"), data.get("sample_weight")
        nodes = {split: split_mask(data, split).nonzero().flatten().to(device) for split in SPLITS}
        weight = None if weight is None else weight.to(device)
        return cls(None if x is None else x.to(features or device), y.to(device), nodes, weight)

    def target(self, split: str) -> Tensor:
        """The targets of a split's nodes, `[M]` or `[M, C]`."""
        return self.y[self.nodes[split]]

    def train_weight(self, places: Tensor | None = None) -> Tensor | None:
        """The weights of the training nodes, or of those at some places among them, `[M]`; None: all count alike."""
        nodes = self.nodes["train"]
        return None if self.weight is None else self.weight[nodes if places is None else nodes[places]]


def check_plan(data: Data, plan: Plan | None) -> None:
    """Raise ValueError where a plan has other rows than `data`, or was lowered from other edges.

    Nodes without edges, as a process of several has them, are compared by their number alone.
    """
    if plan is None:  # a model of its own that needs none
        return
    labels = data.get("y")
    if labels is not None and len(labels) != plan.num_nodes:
        raise ValueError(f"The plan must have the {len(labels)} nodes of `data`. Got one of {plan.num_nodes}.")
    graph = data.get("graph")
    if (data.get("edge_index") is None and graph is None) or plan.edge_digest is None:
        return
    digest = digest_edges(*read_edges(data)) if graph is None else graph.digest()  # of rows: known, or one pass
    if digest.edges != plan.edge_digest:
        raise ValueError(
            f"The plan must be lowered from the edges of `data`. Got that of another graph of {plan.num_nodes} nodes."
        )
