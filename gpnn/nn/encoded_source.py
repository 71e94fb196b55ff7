"""EncodedSource: initial states made of features whenever they are needed, and never kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from gpnn.engine.blockwise_backward import add_gradient
from gpnn.engine.rows import Rows
from gpnn.nn.feature_rows import FeatureRows
from gpnn.nn.layers import MaskKey, mark_dense
from gpnn.nn.row_chunks import CHUNK_ROWS
from gpnn.pages import empty_like

GPU_CHUNK_ROWS = 1 << 20  # rows that are encoded at one time on a GPU


def step_rows(device: torch.device) -> int:
    """Rows that are encoded or scored at one time."""
    return CHUNK_ROWS if device.type == "cpu" else GPU_CHUNK_ROWS


def row_slices(num_rows: int, device: torch.device) -> Iterator[slice]:
    """All rows, so many at a time."""
    for start in range(0, num_rows, step_rows(device)):
        yield slice(start, min(start + step_rows(device), num_rows))


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """A :class:`gpnn.engine.Source` of h₀ = f(x), row by row.

    Attributes:
        function: f of features, `[n, F]`, and the key of their random masks, on the device; gives working states.
        features: x by plan rows.
        nodes: the user's node in each plan row, `[N]`, whose masks the row gets; None: row i is node i.
        key: of the random masks, or None.
        tensors: the parameters of f, to which gradients flow.
        num_rows: N.
        device: that computes.
        dtype: of the states; None: as f gives them. In bfloat16 the products of f are too.
    """

    function: Callable[[Tensor, MaskKey | None], Tensor]
    features: FeatureRows
    nodes: Tensor | None
    key: MaskKey | None
    tensors: tuple[Tensor, ...]
    num_rows: int
    device: torch.device
    dtype: torch.dtype | None = None
    kept = False

    def new_state(self) -> Tensor:
        like = self.read(slice(0, 1)) if self.features.at_hand else self._like()
        return empty_like(like.expand(self.num_rows, -1))

    def _like(self) -> Tensor:
        for _, x in self.features.pieces(1):
            with torch.no_grad():
                return self._encode(x[:1], slice(0, 1))
        raise AssertionError("a graph has nodes")

    def release(self) -> None:
        self.features.release()

    def fetch(self) -> None:
        self.features.fetch()

    def drop(self) -> None:
        """Nothing yet: the gradient of the encoder still needs the features."""

    def peek(self) -> Rows | None:
        """Itself, where single rows can be read."""
        return self if self.features.at_hand else None

    @torch.no_grad()
    def read(self, rows: Tensor | slice) -> Tensor:
        return self._encode(self.features.read(rows), rows)

    @torch.no_grad()
    def load(self, into: Tensor) -> None:
        for rows, x in self.features.pieces(step_rows(self.device)):
            into[rows] = self._encode(x, rows)

    def gradients(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients of the parameters, given that of the states, `[N, s]`."""
        totals: list[Tensor | None] = [None] * len(self.tensors)
        for rows, x in self.features.pieces(step_rows(self.device)):
            with torch.enable_grad():
                out = self._encode(x, rows)
            if not out.requires_grad:  # none of the parameters is used here
                break
            grads = torch.autograd.grad(out, self.tensors, grad[rows], allow_unused=True)
            totals = [add_gradient(total, value) for total, value in zip(totals, grads)]
        return totals

    def _encode(self, x: Tensor, rows: Tensor | slice) -> Tensor:
        key = self.key
        if key is not None:
            key = key._replace(nodes=self._nodes(rows))
        with self._products():
            out = self.function(mark_dense(x), key)
        return out if self.dtype is None else out.to(self.dtype)

    def _products(self) -> AbstractContextManager[None]:
        if self.dtype is None or self.dtype.itemsize > 2:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype, cache_enabled=False)

    def _nodes(self, rows: Tensor | slice) -> Tensor:
        if self.nodes is not None:
            return self.nodes[rows]
        return torch.arange(rows.start, rows.stop, device=self.device) if isinstance(rows, slice) else rows
