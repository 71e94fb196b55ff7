"""NodeSlots: which slot holds the node of an id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpnn.storage.read import shorten


class NodeSlots:
    """Ids of nodes and their slots; the slots of nodes that went are used again.

    Args:
        ids: of the nodes to begin with, distinct: node i is in slot i.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids: list[str | None] = list(ids)
        self._slot = {each: slot for slot, each in enumerate(ids)}
        self._free: list[int] = []

    def __contains__(self, node: str) -> bool:
        return node in self._slot

    def __len__(self) -> int:
        return len(self._slot)

    def find(self, nodes: Iterable[str], what: str) -> np.ndarray:
        """The slots of these nodes, `[n]`.

        Raises:
            ValueError: when there is no such node; `what` names the argument.
        """
        try:
            return np.array([self._slot[each] for each in nodes], np.int64)
        except KeyError as error:
            raise ValueError(f"`{what}` must name nodes of the graph. Got {shorten(error.args[0])}.") from None

    def remove(self, nodes: Iterable[str]) -> None:
        """Free the slots of these nodes."""
        for each in nodes:
            slot = self._slot.pop(each)
            self.ids[slot] = None
            self._free.append(slot)

    def add(self, nodes: Sequence[str]) -> np.ndarray:
        """Slots for new nodes, `[n]`: free ones, then further ones."""
        more = max(0, len(nodes) - len(self._free))
        self._free = [*range(len(self.ids) + more - 1, len(self.ids) - 1, -1), *self._free]
        self.ids += [None] * more
        slots = np.array([self._free.pop() for _ in nodes], np.int64)
        for each, slot in zip(nodes, slots.tolist()):
            self.ids[slot] = each
            self._slot[each] = slot
        return slots

    def in_order(self) -> np.ndarray:
        """The slots of all nodes, the oldest first, `[N]`."""
        return np.fromiter(self._slot.values(), np.int64, len(self._slot))
