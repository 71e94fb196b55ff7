"""How the kernels stand to autograd and to tracers: first derivatives alone, and torch's own operations on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from gpnn.kernels.operator import Operator

SECOND_DERIVATIVES = (
    "Second derivatives are not supported through a propagation: differentiate it without `create_graph=True`, "
    "and take a Hessian-vector product as a difference of two gradients."
)

Result = TypeVar("Result")


def first_order(backward: Callable[..., Result]) -> Callable[..., Result]:
    """The `backward` of a :class:`torch.autograd.Function` that raises where its result is to be differentiated.

    torch's `once_differentiable` notices only a gradient that is differentiable itself. A constant one, as a sum has,
    passes, and what depends on saved tensors then counts as constant: second derivatives come out wrong in silence.

    Raises:
        RuntimeError: from the decorated function, under `create_graph=True`.
    """

    @wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Result:
        if torch.is_grad_enabled():  # autograd's engine sets it to `create_graph`
            raise RuntimeError(SECOND_DERIVATIVES)
        return backward(ctx, *grads)

    return checked


_plain: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def setting(variable: ContextVar[Result], value: Result) -> Iterator[None]:
    """Inside, a variable has another value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def plain_operations() -> AbstractContextManager[None]:
    """Inside, models compute with torch's own operations alone, which a tracer records: slower than the kernels."""
    return setting(_plain, True)


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
        weight, scale, sender_scale = (
            None if each is None else each[:, None].to(x.dtype)
            for each in (operator.weight, operator.row_scale, operator.col_scale)
        )
    sent = (x if sender_scale is None else x * sender_scale).index_select(0, senders)
    sent = sent if weight is None else sent * weight
    shape = (operator.shape[0], x.shape[1])
    if how == "sum":
        out = x.new_zeros(shape).index_add(0, rows, sent)
        return out if scale is None else out * scale
    start = x.new_full(shape, -torch.inf if how == "max" else torch.inf)
    out = start.scatter_reduce(0, rows[:, None].expand_as(sent), sent, f"a{how}")
    return torch.where(received, out, fill)
