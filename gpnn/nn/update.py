"""Update functions U: the next state of a node from its state and its aggregated messages.

A working state may hold more than messages are made of: an LSTM's memory stands beside its visible state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from gpnn.check import check_choice, check_range
from gpnn.engine import Step
from gpnn.kernels.autograd import affine, is_plain
from gpnn.kernels.convolution import Convolution, convolution_update
from gpnn.kernels.update_rule import has_kernels
from gpnn.nn.layers import BatchNorm, glorot

RESETS = ("after", "before")


class StateUpdate(nn.Module):
    """An update function that reads no initial state, and whose working state is the visible one, unless it says so."""

    residual = False
    local = True

    def has_kernels(self, state: Tensor) -> bool:
        """Whether a kernel takes such states, which may be narrower than the parameters."""
        return False

    def start(self, state: Tensor) -> Tensor:
        return state

    def visible(self, working: Tensor) -> Tensor:
        return working


class GRUUpdate(StateUpdate):
    r"""The gated recurrent unit of Cho et al. (2014), as GGNN uses it (Li et al. 2015).

    .. math::
        r = \sigma(W_r m + U_r h), \quad z = \sigma(W_z m + U_z h), \quad
        n = \tanh(W_n m + r \odot U_n h), \quad h' = (1 - z) n + z h

    Weights are laid out as in :class:`torch.nn.GRUCell`, so that they can be exchanged with it.

    Args:
        update_bias: start of the update gate's bias; 1, as in the reference code, begins close to the identity.
        reset: where the reset gate acts: "after" the matrix product as in PyTorch and the equation above, or
            "before" it, n = tanh(W m + U(r ⊙ h)), as in the papers and in the authors' code.
    """

    def __init__(
        self, channels: int, generator: torch.Generator, update_bias: float = 1.0, reset: str = "after"
    ) -> None:
        super().__init__()
        check_choice("reset", reset, RESETS)
        self.reset = reset
        self.weight_ih = nn.Parameter(_gates(3, channels, generator))
        self.weight_hh = nn.Parameter(_gates(3, channels, generator))
        bias = torch.zeros(3 * channels)
        bias[channels : 2 * channels] = update_bias
        self.bias_ih = nn.Parameter(bias)
        self.bias_hh = nn.Parameter(torch.zeros(3 * channels))

    def has_kernels(self, state: Tensor) -> bool:
        return True

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        parameters = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if self.reset == "before":
            return _update_before(messages, state, *parameters)
        if is_plain():
            return torch.gru_cell(messages, state, *parameters)
        if state.is_cuda:
            from gpnn.kernels.gpu_gru import gru_update
        else:
            from gpnn.kernels.cpu_gru import gru_update

        update = torch.gru_cell if torch.is_autocast_enabled(state.device.type) else gru_update
        return update(messages, state, *parameters)


def _update_before(
    messages: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """The update whose reset gate acts before the product; in bf16 under autocast, as `torch.gru_cell` has it."""
    if torch.is_autocast_enabled(state.device.type):
        state = state.to(torch.get_autocast_dtype(state.device.type))
    if state.is_cuda:
        from gpnn.kernels.gpu_gru_before import gru_update_before

        return gru_update_before(messages, state, weight_ih, weight_hh, bias_ih, bias_hh)
    sums, width = affine(bias_ih, messages, weight_ih.T), state.shape[1]  # [n, 3d]
    own = affine(bias_hh[: 2 * width], state, weight_hh[: 2 * width].T)
    reset, keep = torch.sigmoid(sums[:, : 2 * width] + own).chunk(2, dim=1)
    candidate = affine(bias_hh[2 * width :], reset * state, weight_hh[2 * width :].T)
    return torch.lerp(torch.tanh(sums[:, 2 * width :] + candidate), state, keep)


def _gates(count: int, channels: int, generator: torch.Generator) -> Tensor:
    return torch.cat([glorot(channels, channels, generator) for _ in range(count)])


class LSTMUpdate(StateUpdate):
    """Hochreiter and Schmidhuber's unit; the working state is the visible state and the memory side by side, `[N, 2d]`.

    Weights are laid out as in :class:`torch.nn.LSTMCell`.

    Args:
        forget_bias: start of the forget gate's bias.
    """

    def __init__(self, channels: int, generator: torch.Generator, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(_gates(4, channels, generator))
        self.weight_hh = nn.Parameter(_gates(4, channels, generator))
        bias = torch.zeros(4 * channels)
        bias[channels : 2 * channels] = forget_bias
        self.bias_ih = nn.Parameter(bias)
        self.bias_hh = nn.Parameter(torch.zeros(4 * channels))

    def start(self, state: Tensor) -> Tensor:
        return torch.cat([state, torch.zeros_like(state)], dim=1)

    def visible(self, working: Tensor) -> Tensor:
        return working[:, : working.shape[1] // 2]

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        hidden, memory = state.chunk(2, dim=1)
        parameters = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return torch.cat(torch.lstm_cell(messages, (hidden, memory), *parameters), dim=1)


class ConvolutionUpdate(StateUpdate):
    """An update function of a sum of products: σ(W m + …), in one kernel where :attr:`form` says what it computes.

    A subclass that does not set it computes something else, by torch's operations.
    """

    form: Convolution | None = None
    weight_message: Tensor
    bias: Tensor

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.form = vars(cls).get("form")

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        if self.has_kernels(state):
            assert self.form is not None
            return convolution_update(self.form, messages, state, self.ordered_parameters())
        return self._activate(state, affine(self._own(state), messages, self.weight_message))

    def has_kernels(self, state: Tensor) -> bool:
        return self.form is not None and has_kernels(state, self.bias)

    def ordered_parameters(self) -> tuple[Tensor, ...]:
        """Those of :class:`gpnn.kernels.convolution.Convolution`."""
        return self.weight_message, self.bias

    def _own(self, state: Tensor) -> Tensor:
        """What is added to W m, `[d]` or `[n, d]`."""
        return self.bias

    def _activate(self, state: Tensor, sums: Tensor) -> Tensor:
        """The next state, given the sums, `[n, d]`."""
        return sums.relu()


class GCNUpdate(ConvolutionUpdate):
    """h' = ReLU(W m + b): the graph convolution of Kipf and Welling (2017); self-loops are the plan's."""

    form = Convolution("relu")

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight_message = nn.Parameter(glorot(channels, channels, generator))
        self.bias = nn.Parameter(torch.zeros(channels))


class SAGEUpdate(ConvolutionUpdate):
    """h' = ReLU(W₁ h + W₂ m + b): GraphSAGE (Hamilton et al. 2017), whose messages are averaged."""

    form = Convolution("relu")

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight_state = nn.Parameter(glorot(channels, channels, generator))
        self.weight_message = nn.Parameter(glorot(channels, channels, generator))
        self.bias = nn.Parameter(torch.zeros(channels))

    def ordered_parameters(self) -> tuple[Tensor, ...]:
        return self.weight_message, self.bias, self.weight_state

    def _own(self, state: Tensor) -> Tensor:
        return affine(self.bias, self.visible(state), self.weight_state)


class MLPUpdate(SAGEUpdate):
    """h' = tanh(W₁ h + W₂ m + b)."""

    form = Convolution("tanh")

    def _activate(self, state: Tensor, sums: Tensor) -> Tensor:
        return sums.tanh()


class NormedResidual(nn.Module):
    """What convolutions behind a layer normalisation, inside a residual connection, have in common."""

    def visible(self, working: Tensor) -> Tensor:
        return layer_norm(working, working.shape[1:])

    def _activate(self, state: Tensor, sums: Tensor) -> Tensor:
        return state + sums.relu()


class ResidualUpdate(NormedResidual, SAGEUpdate):
    """h' = h + ReLU(W₁ n(h) + W₂ m + b), where n standardises each node's state, and messages are of such states.

    A graph convolution behind a layer normalisation, inside a residual connection (Li et al. 2020): the form in which
    networks of many layers train. Share it "round" for a convolution per round. A node's result follows from its
    own state and its messages alone, unlike under batch normalisation.
    """

    form = Convolution("relu", norm=True, residual=True)


class GCNResidualUpdate(NormedResidual, GCNUpdate):
    """h' = h + ReLU(W m + b), whose messages are of standardised states n(h); self-loops are the plan's.

    The same without a weight for a node's own state, which its message to itself stands for: where neighbours are alike
    it has less to learn. Share it "round" for a convolution per round.
    """

    form = Convolution("relu", norm=True, residual=True)


class BatchResidualUpdate(SAGEUpdate):
    """h' = h + ReLU(n(W₁ h + W₂ m + b)), where n is a batch normalisation of the rows that a step updates.

    GraphSAGE's convolution with a norm inside a residual connection: the form in which tuned classic networks do as
    well as newer ones on most graphs (Luo et al. 2024). Share it "round" for a convolution and a norm per round. In
    training a row's change follows from all rows of its step, so that they must be together; later it is an affine map.
    """

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__(channels, generator)
        self.norm = BatchNorm(channels)

    @property
    def local(self) -> bool:  # type: ignore[override]
        return not self.training

    def _activate(self, state: Tensor, sums: Tensor) -> Tensor:
        return state + self.norm(sums).relu()


TELEPORTS = ("phase", "round")


class LinearUpdate(StateUpdate):
    """h' = (1 − α) m + α h₀: personalised propagation (APPNP, Gasteiger et al. 2019); α = 0 is plain smoothing.

    It has no parameters. With the readout "learned" over rounds and α = 0 it is GPR-GNN, with "mean" the propagation
    of GRAND.

    Args:
        alpha: probability α of the teleport, from 0 to 1.
        teleport: "phase" teleports in every phase, "round" once per round: not in phases that close it.
    """

    def __init__(self, channels: int, generator: torch.Generator, alpha: float = 0.1, teleport: str = "round") -> None:
        super().__init__()
        if not 0 <= alpha <= 1:
            raise ValueError(f"`alpha` must lie from 0 to 1. Got {alpha}.")
        check_choice("teleport", teleport, TELEPORTS)
        self.alpha = alpha
        self.teleport = teleport
        self.residual = alpha > 0

    def alpha_of(self, step: Step) -> float:
        """The probability of the teleport in a step."""
        return 0.0 if not self.alpha or (self.teleport == "round" and step.closing) else self.alpha

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        alpha = self.alpha_of(step)
        if not alpha:
            return messages
        assert step.initial is not None
        return torch.lerp(messages.to(step.initial.dtype), step.initial, alpha)  # bf16 under autocast


class GCNIIUpdate(StateUpdate):
    """h' = ReLU(((1 − β) I + β W) ((1 − α) m + α h₀)), β = log(θ / (t + 1) + 1) in round t (Chen et al. 2020).

    Share it "round" for a W per round, as the authors do.

    Args:
        alpha: weight α of the initial state.
        theta: strength θ of the identity map's decay.
    """

    residual = True

    def __init__(self, channels: int, generator: torch.Generator, alpha: float = 0.1, theta: float = 0.5) -> None:
        super().__init__()
        self.alpha = alpha
        self.theta = theta
        self.weight = nn.Parameter(glorot(channels, channels, generator))

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        assert step.initial is not None
        beta = math.log(self.theta / (step.round + 1) + 1)
        support = torch.lerp(messages.to(step.initial.dtype), step.initial, self.alpha)  # bf16 under autocast
        return affine(support, support, self.weight, beta=1 - beta, alpha=beta).relu()


LOWEST, HIGHEST = -2.5, 1.5  # between which increments are drawn: half of the channels lose a step, a quarter gain one


class MaxPlusUpdate(StateUpdate):
    r"""Each channel adds an increment to its message, and takes the larger of that and its state, or that alone.

    .. math::
        h' = \max(h, m + s) \;\text{where}\; k = 1, \qquad h' = m + s \;\text{where}\; k = 0

    With `aggregate="max"` this is a step of max-plus algebra: hop counts, maxima and copies are exact, on graphs of any
    length. The increments s are whole multiples of `step` and the gates k are 0 or 1, per channel; both are learned
    through the rounding (the straight-through gradient of Bengio et al. 2013), so that nothing drifts over many steps.
    A node without a message has m = 0. Share it "kind", so that each kind of phase has increments and gates of its own.

    Args:
        step: the unit of the increments, large compared with what training changes in the initial states; with 0 there
            are none, and what a node sends arrives as it is, however far.
        rate: how fast increments and gates move, compared with other parameters.

    Raises:
        ValueError: when `step` is negative or `rate` is not positive.
    """

    def __init__(self, channels: int, generator: torch.Generator, step: float = 8.0, rate: float = 0.005) -> None:
        super().__init__()
        check_range("step", step, 0)
        check_range("rate", rate, 1e-6)
        self.step, self.rate = step, rate
        drawn = torch.rand(channels, generator=generator) * (HIGHEST - LOWEST) + LOWEST
        self.increment = nn.Parameter(drawn / rate)
        self.keep = nn.Parameter(torch.randn(channels, generator=generator) / rate)

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        increment = _rounded(self.increment * self.rate) * self.step
        keep = _rounded(torch.sigmoid(self.keep * self.rate))
        arrived = messages + increment.to(messages.dtype)
        return arrived + keep.to(messages.dtype) * torch.relu(state - arrived)


def _rounded(value: Tensor) -> Tensor:
    """The nearest whole numbers, with the gradient of the values themselves."""
    return value + (value.round() - value).detach()


class Update(Protocol):
    """An update function."""

    @property
    def residual(self) -> bool:
        """Whether it reads `step.initial`."""

    @property
    def local(self) -> bool:
        """Whether a row's next state follows from its own state and messages alone."""

    def start(self, state: Tensor) -> Tensor:
        """The working state, `[N, s]`, of nodes whose visible state is `state`, `[N, d]`."""

    def visible(self, working: Tensor) -> Tensor:
        """The visible state, `[N, d]`, of a working state."""

    def __call__(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        """The next working state, `[n, s]`, of nodes in the working state `state` that received `messages`."""


# Each is made from the width d of states and messages and a generator of weights; further arguments are its options.
UPDATES: dict[str, Callable[..., Update]] = {
    "gru": GRUUpdate,
    "lstm": LSTMUpdate,
    "gcn": GCNUpdate,
    "sage": SAGEUpdate,
    "mlp": MLPUpdate,
    "linear": LinearUpdate,
    "gcnii": GCNIIUpdate,
    "max_plus": MaxPlusUpdate,
    "residual": ResidualUpdate,
    "gcn_residual": GCNResidualUpdate,
    "batch_residual": BatchResidualUpdate,
}

__all__ = [
    "UPDATES",
    "BatchResidualUpdate",
    "GCNIIUpdate",
    "GCNUpdate",
    "GRUUpdate",
    "LSTMUpdate",
    "LinearUpdate",
    "MLPUpdate",
    "MaxPlusUpdate",
    "ResidualUpdate",
    "SAGEUpdate",
    "Update",
]
