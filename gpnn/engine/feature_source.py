"""FeatureSource: initial states that are made from features in host memory whenever they are needed."""

from __future__ import annotations

import torch
from torch import Tensor

from gpnn.engine.host_room import PIECE_ROWS, HostRows, copying, lend, wait


class FeatureSource:
    """h₀ = x W + b, for features x that stay in host memory, in plan order.

    Features come to the device once a pass, behind the computation's back, when the backward pass has made room: for
    the states that it begins from, for the gradient of W and for the beginning of the next pass. The first pass streams
    them through two buffers.

    Args:
        features: x, `[N, F]`.
        weight: W, `[F, d]`; its gradient is added to.
        bias: b, `[d]`; likewise.
        stream: the stream that copies, or None on a CPU.
    """

    def __init__(self, features: HostRows, weight: Tensor, bias: Tensor, stream: torch.cuda.Stream | None) -> None:
        self.features, self.weight, self.bias, self.stream = features, weight, bias, stream
        self._ahead: Tensor | None = None

    def fetch(self, like: Tensor) -> None:
        """Start bringing all features to the device of `like`."""
        self._ahead = like.new_empty(self.features.shape, dtype=self.features.dtype)
        with copying(self.stream):
            self.features.read(self._ahead)

    @torch.no_grad()
    def load(self, into: Tensor) -> None:
        """Write the initial states into `into`, `[N, d]`."""
        weight, bias = self.weight.to(into.dtype), self.bias.to(into.dtype)
        if self._ahead is not None:
            wait(self.stream)
        for number in range(len(self.features.pieces)):
            rows = self.features.rows(number)
            x = self._piece(number, into) if self._ahead is None else self._ahead[rows]
            torch.addmm(bias, x.to(into.dtype), weight, out=into[rows])

    def drop(self) -> None:
        """Nothing yet: the gradient of W still needs the features."""

    def release(self) -> None:
        """Give up the features on the device."""
        self._ahead = None

    @torch.no_grad()
    def absorb(self, grad: Tensor) -> None:
        """Add to the gradients of W and b, given that of the initial states, `[N, d]`."""
        if self._ahead is None:
            self.fetch(grad)
        assert self._ahead is not None
        wait(self.stream)
        by_weight, by_bias = torch.zeros_like(self.weight), torch.zeros_like(self.bias)
        for number in range(len(self.features.pieces)):
            rows = self.features.rows(number)
            by_weight += _sum_products(self._ahead[rows].to(grad.dtype), grad[rows]).to(by_weight.dtype)
            by_bias += grad[rows].sum(0, dtype=by_bias.dtype)
        for parameter, value in ((self.weight, by_weight), (self.bias, by_bias)):
            parameter.grad = value if parameter.grad is None else parameter.grad + value

    def _piece(self, number: int, like: Tensor) -> Tensor:
        """The features of one piece, on the device of `like`; the next piece is on its way while this one is used."""
        if number == 0:
            shape = (min(PIECE_ROWS, self.features.shape[0]), self.features.shape[1])
            self._buffers = [like.new_empty(shape, dtype=self.features.dtype) for _ in range(2)]
            self._start(0)
        wait(self.stream)
        if number + 1 < len(self.features.pieces):
            self._start(number + 1)
        piece = self._buffers[number % 2][: len(self.features.pieces[number])]
        if number + 1 == len(self.features.pieces):
            for buffer in self._buffers:
                lend(buffer, self.stream)
            self._buffers = []
        return piece

    def _start(self, number: int) -> None:
        piece = self.features.pieces[number]
        with copying(self.stream):  # after the product that used this buffer last
            self._buffers[number % 2][: len(piece)].copy_(piece, non_blocking=True)


def _sum_products(a: Tensor, b: Tensor) -> Tensor:
    """aᵀ b, summed over the rows in float32 or better."""
    if a.is_cuda:
        from gpnn.kernels.gpu_gru import sum_products

        return sum_products(a, b)
    return a.T @ b
