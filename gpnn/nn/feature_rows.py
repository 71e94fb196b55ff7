"""Features in plan order, where they lie: read by rows, or copied from the host by pieces while others are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from gpnn.engine import Plan
from gpnn.engine.rows import read_rows
from gpnn.engine.saved_states import PIECE_ROWS, HostRows, copy_stream, copying, record_stream, wait
from gpnn.nn.layers import made_once


class FeatureRows(Protocol):
    """Features `[N, F]` by plan rows."""

    @property
    def at_hand(self) -> bool:
        """Whether single rows can be read."""

    def read(self, rows: Tensor | slice) -> Tensor:
        """The features of some rows, `[m, F]`, on the device that computes."""

    def pieces(self, step: int) -> Iterator[tuple[slice, Tensor]]:
        """All rows, at most about `step` at a time, in order."""

    def fetch(self) -> None:
        """Start copying them to the device, all of them."""

    def release(self) -> None:
        """Free what was fetched."""


def place_features(x: Tensor, plan: Plan, device: str | None, dtype: torch.dtype | None, width: int) -> FeatureRows:
    """Features by plan rows, where a runner has them; those on the host are put in order once.

    Args:
        x: `[N, F]`.
        plan: whose rows count.
        device: "cpu": on the host; None: where the plan is.
        dtype: of the states; features on the host are kept no wider.
        width: of the states; features that are wider are never on the device all at once.
    """
    if device is None:
        return NearFeatures(x.to(plan.device), plan.order)
    narrow = x.dtype if dtype is None or x.element_size() <= dtype.itemsize else dtype
    whole = comes_whole(x, width)
    return made_once((id(x), id(plan)), x, lambda: HostFeatures(x, plan, narrow, whole=whole))


def comes_whole(x: Tensor, width: int) -> bool:
    """Whether features on the host are copied to the device all at once: they take no more than states of a width."""
    return x.shape[1] <= width


class NearFeatures:
    """Features on the device that computes, in the user's order.

    Args:
        x: `[N, F]`.
        order: the user's node in each plan row, `[N]`, or None: the orders agree.
    """

    at_hand = True

    def __init__(self, x: Tensor, order: Tensor | None) -> None:
        self.x, self.order = x, order

    def read(self, rows: Tensor | slice) -> Tensor:
        return read_rows(self.x, rows if self.order is None else self.order[rows])

    def pieces(self, step: int) -> Iterator[tuple[slice, Tensor]]:
        for start in range(0, len(self.x), step):
            rows = slice(start, min(start + step, len(self.x)))
            yield rows, self.read(rows)

    def fetch(self) -> None:
        """Nothing: they are here."""

    def release(self) -> None:
        """Nothing: they stay here."""


class HostFeatures:
    """Features in host memory, in plan order, page-locked where there is a GPU to copy to.

    They are copied to the device once per pass, asynchronously, when the backward pass comes to the first round: for
    the states that it begins from, for the gradient of the encoder and for the beginning of the next pass. The first
    pass streams them through two buffers.

    Args:
        x: `[N, F]`, on the host.
        plan: whose rows count; it computes on its device.
        dtype: the type that they are stored in.
        whole: whether the device has room for all of them at one time; else every use streams them.
    """

    def __init__(self, x: Tensor, plan: Plan, dtype: torch.dtype, *, whole: bool = True) -> None:
        self.whole = whole
        self.plan = plan  # as long as it lives, no other has its id
        self.rows, self.device, self.stream = (
            HostRows(x.shape[0], x.shape[1], dtype),
            plan.device,
            copy_stream(plan.device),
        )
        order = None if plan.order is None else plan.order.cpu()
        for number, piece in enumerate(self.rows.pieces):
            chosen = self.rows.rows(number)
            piece.copy_(x[chosen] if order is None else x[order[chosen]])
        self._here: Tensor | None = None

    @property
    def at_hand(self) -> bool:
        return self._here is not None

    def read(self, rows: Tensor | slice) -> Tensor:
        assert self._here is not None
        wait(self.stream)
        return read_rows(self._here, rows)

    def pieces(self, step: int) -> Iterator[tuple[slice, Tensor]]:
        """By the pieces that they lie in; the next is on its way while one is used."""
        if self._here is not None:
            wait(self.stream)
            for number in range(len(self.rows.pieces)):
                yield self.rows.rows(number), self._here[self.rows.rows(number)]
            return
        shape = (min(PIECE_ROWS, self.rows.shape[0]), self.rows.shape[1])
        buffers = [torch.empty(shape, dtype=self.rows.dtype, device=self.device) for _ in range(2)]
        self._start(0, buffers)
        for number, piece in enumerate(self.rows.pieces):
            wait(self.stream)
            if number + 1 < len(self.rows.pieces):
                self._start(number + 1, buffers)
            yield self.rows.rows(number), buffers[number % 2][: len(piece)]
        for buffer in buffers:
            record_stream(buffer, self.stream)

    def _start(self, number: int, buffers: list[Tensor]) -> None:
        piece = self.rows.pieces[number]
        with copying(self.stream):  # after what used this buffer last
            buffers[number % 2][: len(piece)].copy_(piece, non_blocking=True)

    def fetch(self) -> None:
        if self.whole and self._here is None:
            self._here = torch.empty(self.rows.shape, dtype=self.rows.dtype, device=self.device)
            with copying(self.stream):
                self.rows.read(self._here)

    def release(self) -> None:
        self._here = None
