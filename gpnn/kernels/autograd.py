"""How the kernels stand to autograd and to tracers: first derivatives alone, and torch's own operations on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple, TypeVar

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


_for_gradients: ContextVar[bool] = ContextVar("for_gradients", default=False)
_at_once: ContextVar[bool] = ContextVar("at_once", default=False)


class StepUse(NamedTuple):
    """What a step must compute, and what becomes of it.

    Attributes:
        values: whether its values are wanted.
        gradients: whether its gradients are.
        kept: whether others keep its result until then.
        at_once: whether its backward pass follows before any other step, so that what it needs may stay in a buffer.
    """

    values: bool
    gradients: bool
    kept: bool
    at_once: bool = False


def for_gradients(alone: bool = True) -> AbstractContextManager[None]:
    """Steps inside are made for their backward pass alone: they have the right shape, and values that mean nothing.

    With `alone` False they have values, also inside another such context.
    """
    return setting(_for_gradients, alone)


def differentiated_at_once() -> AbstractContextManager[None]:
    """The backward pass of a step inside, or of all steps of a block, follows before this thread takes another."""
    return setting(_at_once, True)


def gated_step(
    operator: Operator,
    diagonal: Tensor | None,
    inputs: Tensor,
    parameters: tuple[Tensor, ...],
    *,
    kept: bool = False,
) -> Tensor:
    """gru_cell(A h + diag · h, h) over the first n of the rows `h`, `[n, d]`; A is `[n, m]`.

    Args:
        operator: A, the weighted adjacency, receivers by senders.
        diagonal: weight of each updating row's message to itself, `[n]`, or None.
        inputs: the states h, the updating rows first, `[m, d]`, in the parameters' type or in bfloat16.
        parameters: weight_ih, weight_hh, bias_ih and bias_hh of :func:`torch.gru_cell`.
        kept: whether the result is kept until the backward pass in any case, which can then make use of it.
    """
    if inputs.is_cuda:
        from gpnn.kernels.gpu_gru import GatedStep
    else:
        from gpnn.kernels.cpu_gru import GatedStep  # type: ignore[assignment]
    return GatedStep.apply(operator, diagonal, _use(inputs, parameters, kept), inputs, *parameters)


def gated_steps(
    operator: Operator, diagonal: Tensor | None, inputs: Tensor, parameters: tuple[Tensor, ...], repeat: int
) -> Tensor | None:
    """`repeat` times :func:`gated_step` of the first n rows, while the others stay as they are, `[n, d]`.

    None where no kernel takes all steps in one go: on a GPU where the operator is not split, on a CPU in half precision
    and where a block is too large.
    """
    if inputs.is_cuda:
        if operator.split is None:
            return None
        from gpnn.kernels.gpu_gru import GatedSteps
    else:
        from gpnn.kernels.cpu_gru import GatedSteps, fits  # type: ignore[assignment]

        if inputs.dtype != parameters[0].dtype or not fits(inputs, operator.shape[0], repeat):
            return None
    use = _use(inputs, parameters, kept=False)
    return GatedSteps.apply(operator, diagonal, use, repeat, inputs, *parameters)


def _use(inputs: Tensor, parameters: tuple[Tensor, ...], kept: bool) -> StepUse:
    gradients = torch.is_grad_enabled() and any(each.requires_grad for each in (inputs, *parameters))
    return StepUse(not _for_gradients.get(), gradients, kept, at_once=_at_once.get())
