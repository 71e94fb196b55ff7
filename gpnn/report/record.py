"""Record: all that the page of one run is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gpnn.data.labels import labelled_nodes
from gpnn.partition import Partition
from gpnn.schedule import Schedule

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.report.cost import Cost

SPLIT_NAMES = {"test": "test", "val": "validation", "train": "training"}


@dataclass(frozen=True, eq=False)
class Record:
    """One finished run.

    Attributes:
        name: the dataset's name.
        run: the run folder's name.
        metrics: its final figures.
        history: a record an epoch.
        config: its configuration as TOML.
        environment: where it took place.
        data: features, labels and masks of N nodes.
        probabilities: of each class, `[N, C]`.
        schedule: which messages travelled when.
        partition: the subgraphs, or None.
        states: what the graph made of the nodes, `[N, d]`, or None where they were not computed.
        states_name: what these are.
        cost: time and memory of one pass, or None where it was not measured.
        seed: of samples and layouts.
    """

    name: str
    run: str
    metrics: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    config: str
    environment: Mapping[str, Any]
    data: Data
    probabilities: Tensor
    schedule: Schedule
    partition: Partition | None = None
    states: Tensor | None = None
    states_name: str = "final states"
    cost: Cost | None = None
    seed: int = 0

    @property
    def multi_label(self) -> bool:
        return self.data.y.dim() == 2

    @property
    def classes(self) -> list[str]:
        """The name of each class, the user's own where there are any."""
        names = self.data.get("class_names")
        return [str(name) for name in (range(self.probabilities.shape[1]) if names is None else names)]

    @property
    def prediction(self) -> Tensor:
        """The most likely class of each node, `[N]`."""
        return self.probabilities.argmax(1)

    def node_names(self, nodes: Tensor) -> list[str]:
        """The user's ids of these nodes, or their numbers."""
        names = self.data.get("node_name")
        return [str(node if names is None else names[node]) for node in nodes.tolist()]

    def split(self, name: str) -> Tensor:
        """The labelled nodes of "train", "val" or "test", maybe none."""
        known, mask = labelled_nodes(self.data.y), self.data.get(f"{name}_mask")
        return (known & mask if mask is not None else known & False).nonzero().flatten()

    def held_out(self) -> dict[str, Tensor]:
        """The nodes of the test and validation splits that have any, by the split's name in words; else training's."""
        found = {SPLIT_NAMES[name]: self.split(name) for name in SPLIT_NAMES}
        found = {name: nodes for name, nodes in found.items() if nodes.numel()}
        return {name: nodes for name, nodes in found.items() if name != "training" or len(found) == 1}
