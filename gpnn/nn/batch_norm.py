"""Batch normalisation over the nodes of a graph."""

from __future__ import annotations

from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """Each column standardised over the nodes, then scaled and shifted by what is learned (Ioffe and Szegedy 2015).

    In training by the pass at hand; later by the running average of mean and variance, which starts at the first
    pass: PyTorch's starts at 0 and 1, from where columns as small as scaled features need a hundred passes.

    >>> import torch
    >>> norm = BatchNorm(1)
    >>> _ = norm(torch.tensor([[0.001], [0.003]]))
    >>> round(float(norm.running_mean), 6)
    0.002
    """

    def forward(self, x: Tensor) -> Tensor:
        """The standardised columns, `[N, d]`."""
        if self.training:
            assert self.num_batches_tracked is not None
            self.momentum = max(0.1, 1 / (1 + int(self.num_batches_tracked)))
        return super().forward(x)
