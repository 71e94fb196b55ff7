"""A digest of a dataset, to tell whether it is still the one that a training began on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data

FIELDS = ("edge_index", "edge_type", "edge_weight", "x", "y", "train_mask", "val_mask", "test_mask")
WHOLE, NUM_BLOCKS, BLOCK = 1 << 30, 4096, 1 << 16  # bytes up to which all of an array counts; else evenly spaced blocks


def digest_data(data: Data) -> str:
    """The sha256 of edges, features, labels and masks, in their order, as 64 hexadecimal digits.

    Of an array past one gigabyte its type, its shape and 4,096 blocks of 64 KiB count, evenly spaced: enough to tell
    another dataset, or other rows, in a second; a single value may change unseen.

    >>> from torch_geometric.data import Data
    >>> one, other = (Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, y])) for y in (0, 1))
    >>> digest_data(one) == digest_data(other)
    False
    """
    digest = hashlib.sha256()
    for name in FIELDS:
        values = data.get(name)
        if values is not None:
            for part in _parts(values):
                digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
                for block in _blocks(part):
                    digest.update(block.numpy().data)
    return digest.hexdigest()


def digest_labels(labels: Tensor) -> str:
    """The sha256 of which node is in which subgraph, `[N]`."""
    return hashlib.sha256(labels.numpy().data).hexdigest()


def _parts(values: Tensor) -> tuple[Tensor, ...]:
    if values.layout == torch.sparse_csr:
        return values.crow_indices(), values.col_indices(), values.values()
    return (values,)


def _blocks(values: Tensor) -> Iterator[Tensor]:
    """The bytes of an array, or evenly spaced blocks of them."""
    if not values.numel():
        return
    content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    if len(content) <= WHOLE:
        yield content
        return
    for start in torch.linspace(0, len(content) - BLOCK, NUM_BLOCKS, dtype=torch.float64).long().tolist():
        yield content[start : start + BLOCK]
