"""How kernels and products stand to autograd and tracers: first derivatives, exact sums, torch's own operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.csr import slices
from gpnn.kernels.operator import Operator

RUNS = {"cuda": 256, "cpu": 2048}  # rows that a device sums in float32: a CPU's products do so in blocks of their own
FEW = 1 << 14  # rows of a product of which autograd's gradient is as good, and quicker
MOST_SUMS = 1 << 22  # numbers of the sums of runs that are held at one time
_WIDE_SUMS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)  # bf16 products with float32 results

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


def affine(bias: Tensor | None, x: Tensor, weight: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta · bias + alpha · x weight, `[N, d]`, as :func:`torch.addmm`; the gradient of `weight` by `sum_products`.

    Args:
        bias: `[d]` or `[N, d]`, or None: nothing is added.
        x: `[N, c]`.
        weight: `[c, d]`.
        beta: a factor of the bias.
        alpha: a factor of the product.

    >>> affine(torch.ones(1), torch.full((2, 3), 2.0), torch.ones(3, 1)).tolist()
    [[7.0], [7.0]]
    """
    single = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled(x.device.type)
    if single and len(x) > FEW and weight.requires_grad and x.device.type in RUNS and not is_plain():
        return _Affine.apply(bias, x, weight, beta, alpha)
    return _affine(bias, x, weight, beta, alpha)


def sum_products(a: Tensor, b: Tensor) -> Tensor:
    """aᵀ b, `[c, d]`, of `[N, c]` and `[N, d]`, summed over the rows in float32 or better.

    Taken in float32 from the first row to the last, the error would grow with their number, and the gradient of a
    matrix would depend on where a runner cuts them. Runs of rows are taken so, and their sums are added in float64.
    """
    if a.element_size() <= 2:
        return torch.mm(a.T, b, out_dtype=torch.float32) if _WIDE_SUMS and a.is_cuda else a.T.float() @ b.float()
    run, size = RUNS.get(a.device.type, len(a)), a.shape[1] * b.shape[1]
    if a.dtype == torch.float64 or len(a) <= run or torch.get_float32_matmul_precision() != "highest":
        return a.T @ b
    whole = len(a) // run * run
    total = (a[whole:].T @ b[whole:]).double()
    for rows in slices(whole, max(1, MOST_SUMS // size) * run):
        runs = [each[rows].unflatten(0, (-1, run)) for each in (a, b)]  # [r, run, c] and [r, run, d]
        total = total + torch.bmm(runs[0].transpose(1, 2), runs[1]).sum(0, dtype=torch.float64)
    return total.to(a.dtype)


class _Affine(Function):
    @staticmethod
    def forward(ctx: Any, bias: Tensor | None, x: Tensor, weight: Tensor, beta: float, alpha: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.factors, ctx.by_row = (beta, alpha), bias is None or bias.dim() == 2
        return _affine(bias, x, weight, beta, alpha)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), (beta, alpha), needed = ctx.saved_tensors, ctx.factors, ctx.needs_input_grad
        to_bias = None if not needed[0] else _scaled(grad if ctx.by_row else grad.sum(0), beta)
        to_x = grad @ _scaled(weight.T, alpha) if needed[1] else None
        return to_bias, to_x, _scaled(sum_products(x, grad), alpha) if needed[2] else None, None, None


def _affine(bias: Tensor | None, x: Tensor, weight: Tensor, beta: float, alpha: float) -> Tensor:
    if bias is None:
        return x @ _scaled(weight, alpha)
    return torch.addmm(bias, x, weight, beta=beta, alpha=alpha)


def _scaled(values: Tensor, factor: float) -> Tensor:
    return values if factor == 1 else values * factor
