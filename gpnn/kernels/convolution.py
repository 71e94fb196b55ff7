"""A whole step of a graph convolution as one function of the states, with a kernel for each kind of device."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from gpnn.kernels.gated import step_use
from gpnn.kernels.operator import Operator
from gpnn.kernels.update_rule import Parameters, RowUpdate, UpdateRule
from gpnn.kernels.whole_step import whole_step

EPSILON = 1e-5  # of the variance that a state is standardised by, as in :func:`torch.nn.functional.layer_norm`


class Convolution(NamedTuple):
    r"""The form of an update function h' = σ(n(h) W₁ + m W₂ + b), or h' = h + σ(…).

    Its parameters are W₂, b and, unless messages are all that a node reads, W₁.

    Attributes:
        activation: σ, "relu" or "tanh".
        norm: whether n standardises each node's state, for its own use and in what it sends; else n(h) = h.
        residual: whether the state is added.
    """

    activation: str
    norm: bool = False
    residual: bool = False


def convolution_step(
    form: Convolution, operator: Operator, diagonal: Tensor | None, inputs: Tensor, parameters: Parameters
) -> Tensor:
    """The update of messages A n(h) + diag · n(h) over the first n of the rows `h`, `[n, d]`; A is `[n, m]`.

    Args:
        form: of the update.
        operator: A, the weighted adjacency, receivers by senders.
        diagonal: weight of each updating row's message to itself, `[n]`, or None.
        inputs: the states h, the updating rows first, `[m, d]`, in the parameters' type or in bfloat16.
        parameters: of :class:`Convolution`.
    """
    use = step_use(inputs, parameters)
    return whole_step(rule_for(form, inputs), operator, diagonal, use, inputs, parameters)


def convolution_steps(
    form: Convolution,
    operator: Operator,
    diagonal: Tensor | None,
    inputs: Tensor,
    parameters: Parameters,
    repeat: int,
    rows: Tensor | None = None,
) -> Tensor | None:
    """`repeat` times :func:`convolution_step` of the first n rows, while the others stay as they are, `[n, d]`.

    With `rows`, `[w]`, those alone, `[w, d]`. None where no kernel takes all steps in one go: on a CPU, and where the
    operator is not split.
    """
    if not inputs.is_cuda or operator.split is None:
        return None
    from gpnn.kernels.gpu_steps import WholeSteps

    use = step_use(inputs, parameters)
    whole: Tensor = WholeSteps.apply(rule_for(form, inputs), operator, diagonal, use, repeat, inputs, *parameters)
    return whole if rows is None else whole.index_select(0, rows)


def convolution_update(form: Convolution, messages: Tensor, state: Tensor, parameters: Parameters) -> Tensor:
    """The next states, `[n, d]`, of rows in `state` that received `messages`, `[n, d]`; nothing else is kept."""
    return RowUpdate.apply(rule_for(form, state), messages.to(state.dtype), state, *parameters)


def rule_for(form: Convolution, state: Tensor) -> UpdateRule:
    """The kernels of a convolution where a state lies."""
    if state.is_cuda:
        from gpnn.kernels.gpu_convolution import ConvolutionRule
    else:
        from gpnn.kernels.cpu_convolution import ConvolutionRule  # type: ignore[assignment]
    return ConvolutionRule(form)
