"""Features in memory-mapped files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from gpnn.data.features import csr_tensor
from gpnn.storage.tensors import map_tensor


def map_features(x: Tensor, folder: Path | str) -> Tensor:
    """The same features, `[N, F]`, their values in files under `folder` that vanish with the tensor."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    if x.layout == torch.strided:
        return map_tensor(x.contiguous(), folder)
    if x.layout != torch.sparse_csr:
        raise ValueError(f"Features in files must be dense or sparse CSR. Got {x.layout}.")
    columns, values = (map_tensor(part, folder).numpy() for part in (x.col_indices(), x.values()))
    return csr_tensor(x.crow_indices().numpy(), columns, values, (x.shape[0], x.shape[1]))
