"""The kernels as torch's own operations, which a tracer records: slower, and free of everything but torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from gpnn.kernels.operator import Operator

_plain: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def plain_operations() -> Iterator[None]:
    """Inside, models compute with torch's own operations alone."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def is_plain() -> bool:
    """Whether models are to compute with torch's own operations alone."""
    return _plain.get()


@contextmanager
def constants() -> Iterator[None]:
    """What is computed inside does not depend on a model's inputs, so that a tracer keeps the result alone."""
    if not is_plain():
        yield
        return
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    with disable_proxy_modes_tracing():
        yield


def aggregate_plain(operator: Operator, x: Tensor, how: str, fill: float) -> Tensor:
    """As :func:`gpnn.kernels.aggregate`, `[R, d]`; gradients are autograd's.

    >>> op = Operator.from_edges(torch.tensor([0, 0]), torch.tensor([0, 1]), None, (2, 2))
    >>> aggregate_plain(op, torch.tensor([[-1.0], [-3.0]]), "max", 0.0).tolist()
    [[-1.0], [0.0]]
    """
    with constants():
        rows, senders, received = operator.rows(), operator.col.long(), (operator.ptr.diff() > 0)[:, None]
        weight, scale = (
            None if each is None else each[:, None].to(x.dtype) for each in (operator.weight, operator.row_scale)
        )
    sent = x.index_select(0, senders)
    sent = sent if weight is None else sent * weight
    shape = (operator.shape[0], x.shape[1])
    if how == "sum":
        out = x.new_zeros(shape).index_add(0, rows, sent)
        return out if scale is None else out * scale
    start = x.new_full(shape, -torch.inf if how == "max" else torch.inf)
    out = start.scatter_reduce(0, rows[:, None].expand_as(sent), sent, f"a{how}")
    return torch.where(received, out, fill)
