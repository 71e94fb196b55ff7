"""Tensors in memory-mapped files: the system keeps of them in memory what it has room for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from gpnn.storage.naming import naming


def map_tensor(tensor: Tensor, folder: Path | str) -> Tensor:
    """A copy of the tensor in a memory-mapped file that has no name any more, so that nothing is left behind.

    Room for all of it is reserved first: a mapped page that finds none would kill the process.

    Raises:
        OSError: naming the folder, when the disk is full.
    """
    size = tensor.numel()
    with naming(folder), tempfile.NamedTemporaryFile(dir=folder) as file:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size * tensor.element_size())
        mapped = torch.from_file(file.name, shared=True, size=size, dtype=tensor.dtype).view(tensor.shape)
    return mapped.copy_(tensor)
