"""first_order: a backward pass that refuses to be differentiated itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

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
