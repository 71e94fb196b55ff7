"""Dropout with a counter-based generator: the same MaskKey gives the same masks on any device, in any order."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.kernels import Operator, dropout_mask, hash_key, row_mask
from gpnn.kernels.masks import masked_weight


class MaskKey(NamedTuple):
    """The RNG key of one forward pass: its random masks are a hash of the key, the layer, the node and the column.

    Attributes:
        seed: the run's seed.
        epoch: number of the epoch.
        number: number of the pass inside the epoch.
        nodes: the user's node in each row, `[N]`, whose masks the row gets; None: row i is node i.
    """

    seed: int
    epoch: int = 0
    number: int = 0
    nodes: Tensor | None = None

    @classmethod
    def random(cls) -> MaskKey:
        """A key from torch's global generator."""
        return cls(int(torch.randint(2**62, ())))

    def fold_in(self, layer: int) -> int:
        """The key of one layer's masks."""
        return hash_key(self.seed, self.epoch, self.number, layer)

    def of_rows(self, rows: slice, device: torch.device) -> MaskKey:
        """The key for some of the rows alone, which get the masks that they have among all."""
        nodes = torch.arange(rows.start, rows.stop, device=device) if self.nodes is None else self.nodes[rows]
        return self._replace(nodes=nodes)

    def rows(self, like: Tensor) -> Tensor:
        """The node of each row of `like`, `[N]`."""
        return torch.arange(like.shape[0], device=like.device) if self.nodes is None else self.nodes


def drop_entries(x: Tensor, p: float, key: MaskKey | None, layer: int) -> Tensor:
    """`x` with each entry dropped with probability `p` and the others scaled by 1/(1 − p); unchanged without a key."""
    if key is None or p == 0:
        return x
    return x * dropout_mask(key.fold_in(layer), key.rows(x), x.shape[1], p, dtype=x.dtype)


def drop_rows(x: Tensor, p: float, key: MaskKey | None, layer: int) -> Tensor:
    """The same for whole rows: DropNode of GRAND (Feng et al. 2020)."""
    if key is None or p == 0:
        return x
    return x * row_mask(key.fold_in(layer), key.rows(x), p, dtype=x.dtype)


def drop_weights(operator: Operator, p: float, key: MaskKey | None, layer: int) -> Operator:
    """The same for the stored entries of a sparse matrix."""
    if key is None or p == 0:
        return operator
    return operator.with_weight(masked_weight(operator, key.fold_in(layer), p, key.nodes))
