"""EncodedSource: initial states made of features whenever they are needed; FeatureRows: where features lie."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from gpnn.csr import slices
from gpnn.engine import Plan
from gpnn.engine.blockwise_backward import add_gradient
from gpnn.engine.rows import Rows, read_rows, step_rows
from gpnn.engine.saved_states import PIECE_ROWS, HostRows, copy_stream, copying, record_stream, wait
from gpnn.nn.layers import MaskKey, forget, known, made_once, mark_dense
from gpnn.pages import empty_like


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
    kind, whole = (id(x), _HOST), copied_at_once(x, width)
    features = known(kind, x)
    if features is not None and features.is_for(plan, narrow, whole):
        return features
    del features
    forget(kind)  # before others are made: there is room for those of one plan
    return made_once(kind, x, lambda: HostFeatures(x, plan, narrow, whole=whole))


_HOST = -1  # in the place of a row: what a tensor has on the host


def copied_at_once(x: Tensor, width: int) -> bool:
    """Whether features on the host are copied to the device all at once: they take no more than states of a width."""
    return x.shape[1] <= width


def widened(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Features of 8 bits in another type, None: float32, in which torch can multiply them."""
    return x.to(dtype or torch.float32) if x.element_size() == 1 else x


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
        """The features of some rows, `[m, F]`, on the device that computes."""
        return read_rows(self.x, rows if self.order is None else self.order[rows])

    def first(self) -> Tensor:
        """The features of the first row, `[1, F]`."""
        return self.read(slice(0, 1))

    def pieces(self, step: int) -> Iterator[tuple[slice, Tensor]]:
        """All rows, at most about `step` at a time, in order."""
        return ((rows, self.read(rows)) for rows in slices(len(self.x), step))

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
        self.whole, self._plan = whole, weakref.ref(plan)
        self.rows, self.device, self.stream = (
            HostRows(x.shape[0], x.shape[1], dtype),
            plan.device,
            copy_stream(plan.device),
        )
        order = None if plan.order is None else plan.order.cpu()
        for number, piece in enumerate(self.rows.pieces):
            chosen = self.rows.rows(number)
            if order is not None and x.dtype == dtype:
                torch.index_select(x, 0, order[chosen], out=piece)  # without a copy between
            else:
                piece.copy_(x[chosen] if order is None else x[order[chosen]])
        self._here: Tensor | None = None

    def is_for(self, plan: Plan, dtype: torch.dtype, whole: bool) -> bool:
        """Whether they serve that plan, in that type and manner."""
        return self._plan() is plan and (self.rows.dtype, self.whole) == (dtype, whole)

    @property
    def at_hand(self) -> bool:
        """Whether single rows can be read."""
        return self._here is not None

    def read(self, rows: Tensor | slice) -> Tensor:
        assert self._here is not None
        wait(self.stream)
        return read_rows(self._here, rows)

    def first(self) -> Tensor:
        """The features of the first row, `[1, F]`, on the device that computes."""
        return self.rows.pieces[0][:1].to(self.device, non_blocking=True)

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
        try:
            for number, piece in enumerate(self.rows.pieces):
                wait(self.stream)
                if number + 1 < len(self.rows.pieces):
                    self._start(number + 1, buffers)
                yield self.rows.rows(number), buffers[number % 2][: len(piece)]
        finally:  # a copy may be on its way to a buffer whose reader left
            for buffer in buffers:
                record_stream(buffer, self.stream)

    def _start(self, number: int, buffers: list[Tensor]) -> None:
        piece = self.rows.pieces[number]
        with copying(self.stream):  # after what used this buffer last
            buffers[number % 2][: len(piece)].copy_(piece, non_blocking=True)

    def fetch(self) -> None:
        """Start copying them to the device, all of them."""
        if self.whole and self._here is None:
            self._here = torch.empty(self.rows.shape, dtype=self.rows.dtype, device=self.device)
            with copying(self.stream):
                self.rows.read(self._here)

    def release(self) -> None:
        """Free what was fetched."""
        self._here = None


FeatureRows: TypeAlias = NearFeatures | HostFeatures  # features `[N, F]` by plan rows


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
        with torch.no_grad():
            like = self.encode(self.features.first(), slice(0, 1))
        return empty_like(like.expand(self.num_rows, -1))

    def release(self) -> None:
        self.features.release()

    def fetch(self) -> None:
        self.features.fetch()

    def drop(self) -> None:
        """Nothing yet: the gradient of the encoder still needs the features."""

    def peek(self) -> Rows | None:
        """Itself, where single rows can be read."""
        return self if self.features.at_hand else None

    @property
    def by_rows(self) -> bool:
        """Whether single rows are at hand, and no wider than states: some are encoded more than once."""
        first = self.features.first()
        return self.features.at_hand and first.shape[1] <= self.encode(first, slice(0, 1)).shape[1]

    def make(self, rows: Tensor | slice) -> Tensor:
        return self.encode(self.features.read(rows), rows)

    @torch.no_grad()
    def read(self, rows: Tensor | slice) -> Tensor:
        """Some rows, `[m, s]`, a range at a time: what f holds on its way takes several times the result."""
        chosen = range(rows.start, rows.stop) if isinstance(rows, slice) else rows
        step = step_rows(self.device)
        if len(chosen) <= step:
            return self.make(rows)
        out = empty_like(self.encode(self.features.first(), slice(0, 1)).expand(len(chosen), -1))
        for part in slices(len(chosen), step):
            some = chosen[part]
            out[part] = self.make(slice(some.start, some.stop) if isinstance(some, range) else some)
        return out

    @torch.no_grad()
    def load(self, into: Tensor) -> None:
        for rows, x in self.features.pieces(step_rows(self.device)):
            into[rows] = self.encode(x, rows)

    def gradients(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients of the parameters, given that of the states, `[N, s]`."""
        totals: list[Tensor | None] = [None] * len(self.tensors)
        for rows, x in self.features.pieces(step_rows(self.device)):
            with torch.enable_grad():
                out = self.encode(x, rows)
            if not out.requires_grad:  # none of the parameters is used here
                break
            grads = torch.autograd.grad(out, self.tensors, grad[rows], allow_unused=True)
            totals = [add_gradient(total, value) for total, value in zip(totals, grads)]
        return totals

    def encode(self, x: Tensor, rows: Tensor | slice) -> Tensor:
        """The states of some rows, `[m, s]`, whose features are given, `[m, F]`."""
        key = self.key
        if key is not None:
            key = key._replace(nodes=self._nodes(rows))
        with self._products():
            out = self.function(mark_dense(widened(x, self.dtype)), key)
        return out if self.dtype is None else out.to(self.dtype)

    def _products(self) -> AbstractContextManager[None]:
        if self.dtype is None or self.dtype.itemsize > 2:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype, cache_enabled=False)

    def _nodes(self, rows: Tensor | slice) -> Tensor:
        if self.nodes is not None:
            return self.nodes[rows]
        return torch.arange(rows.start, rows.stop, device=self.device) if isinstance(rows, slice) else rows.long()
