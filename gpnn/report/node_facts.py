"""NodeFacts: what a page tells of some nodes, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """What is known of n nodes.

    Attributes:
        names: the user's ids, or numbers.
        classes: the name of each class, of all C.
        likely: probability of each class, `[n, C]`.
        y: class, `[n]`, negative where unknown; or labels, `[n, C]`.
        splits: split of each as a position in `SPLIT_NAMES`, −1 for none, `[n]`.
        parts: the subgraph of each, `[n]`, or None.
        num_parts: number of subgraphs there are.
    """

    names: Sequence[str]
    classes: Sequence[str]
    likely: Tensor
    y: Tensor
    splits: Tensor
    parts: Tensor | None = None
    num_parts: int = 0

    @property
    def prediction(self) -> Tensor:
        """The most likely class of each, `[n]`."""
        return self.likely.argmax(1)


@dataclass(frozen=True, eq=False)
class Sample:
    """Some nodes and what the graph made of them.

    Attributes:
        facts: what is known of the n nodes.
        states: their states, `[n, d]`.
        name: what these states are.
        num_nodes: how many nodes there are in all.
    """

    facts: NodeFacts
    states: Tensor
    name: str
    num_nodes: int
