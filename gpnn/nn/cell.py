"""Cell: message, aggregation and update of one step, in one kernel where there is one; cells per round or kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gpnn.check import check_choice
from gpnn.engine import Block, CellLike, Plan, Step, aggregate_messages
from gpnn.kernels import Operator, hash_key
from gpnn.kernels.autograd import affine
from gpnn.kernels.convolution import Convolution, convolution_step, convolution_steps
from gpnn.kernels.gated import Piece, gated_blocks, gated_step, gated_steps
from gpnn.kernels.linear import linear_steps
from gpnn.kernels.update_rule import has_kernels
from gpnn.nn.layers import MaskKey, drop_entries, glorot
from gpnn.nn.update import UPDATES, ConvolutionUpdate, GRUUpdate, LinearUpdate, StateUpdate, Update
from gpnn.schedule.partitioned import KINDS


class Message(Protocol):
    """A message function."""

    def __call__(self, state: Tensor, edge_type: int) -> Tensor:
        """What nodes in these visible states, `[m, d]`, send along edges of this type, `[m, d]`."""


class IdentityMessage(nn.Module):
    """The state itself, along every type of edge."""

    def forward(self, state: Tensor, edge_type: int) -> Tensor:
        return state


class LinearMessage(nn.Module):
    """A linear map of the state, one per edge type.

    With one type, a node's message to itself (edge type −1) goes through the same map; with several it has a map of
    its own, the last one, as the root weight of R-GCN.

    Args:
        num_edge_types: number of edge types C.
    """

    def __init__(self, channels: int, num_edge_types: int, generator: torch.Generator) -> None:
        super().__init__()
        count = _instances(num_edge_types)
        self.weight = nn.Parameter(torch.stack([glorot(channels, channels, generator) for _ in range(count)]))

    def forward(self, state: Tensor, edge_type: int) -> Tensor:
        return affine(None, state, self.weight[_checked(edge_type, self.weight)])


class MLPMessage(nn.Module):
    """A network with one hidden ReLU layer, one per edge type; arguments as :class:`LinearMessage`."""

    def __init__(self, channels: int, num_edge_types: int, generator: torch.Generator) -> None:
        super().__init__()
        count = _instances(num_edge_types)
        self.hidden = nn.Parameter(torch.stack([glorot(channels, channels, generator) for _ in range(count)]))
        self.weight = nn.Parameter(torch.stack([glorot(channels, channels, generator) for _ in range(count)]))
        self.bias = nn.Parameter(torch.zeros(count, channels))

    def forward(self, state: Tensor, edge_type: int) -> Tensor:
        number = _checked(edge_type, self.weight)
        hidden = affine(self.bias[number], state, self.hidden[number])
        return affine(None, hidden.relu(), self.weight[number])


def _instances(num_edge_types: int) -> int:
    return 1 if num_edge_types == 1 else num_edge_types + 1


def _checked(edge_type: int, instances: Tensor) -> int:
    """The edge type, unless the last instance, a node's own, would answer for it."""
    num_edge_types = max(1, len(instances) - 1)
    if edge_type >= num_edge_types:
        raise ValueError(
            f"The model knows edge types from 0 to {num_edge_types - 1}; make it with a larger `num_edge_types` "
            f"(virtual nodes need two more than the graph). Got type {edge_type}."
        )
    return edge_type


# Each is made from the width d of states and messages, the number of edge types and a generator of its weights.
MESSAGES: dict[str, Callable[[int, int, torch.Generator], Message]] = {
    "identity": lambda channels, num_edge_types, generator: IdentityMessage(),
    "linear": LinearMessage,
    "mlp": MLPMessage,
}


AGGREGATIONS = ("mean", "sum", "max", "min")
SHARINGS = ("shared", "round", "kind")


class Cell(nn.Module):
    r"""One step of a node: send, aggregate, update (equations 1 to 3 of the paper).

    .. math::
        \bar m_u = A(\{M_{c}(h_v) \mid v \in N_{in}(u)\}), \qquad h_u' = U(h_u, \bar m_u)

    Args:
        message: M, a module of (visible states, edge type); see :data:`gpnn.nn.MESSAGES`.
        update: U, a module of (working states, messages, step); see :data:`gpnn.nn.UPDATES`.
        aggregate: A. "mean" sums with the plan's normalised weights; "sum", "max" and "min" use the graph's own
            weights, and the plan's normalisation, self-loops included, does not touch them.

    Raises:
        ValueError: when the aggregation is unknown.
    """

    random = False

    def __init__(self, message: Message, update: Update, aggregate: str = "mean") -> None:
        super().__init__()
        check_choice("aggregate", aggregate, AGGREGATIONS)
        self.message = message
        self.update = update
        self.aggregate = aggregate

    @property
    def residual(self) -> bool:
        return self.update.residual

    @property
    def local(self) -> bool:
        return self.update.local

    @property
    def returns_kernel_output(self) -> bool:
        """Whether `advance` hands on what its kernel gives; a subclass may do more with it."""
        return type(self) is Cell

    @property
    def is_linear(self) -> bool:
        """Whether a step is a linear map without parameters, so that its gradient does not follow from the states."""
        sums = isinstance(self.message, IdentityMessage) and self.aggregate in ("mean", "sum")
        return sums and isinstance(self.update, LinearUpdate) and self.returns_kernel_output

    @property
    def steps_by_kernel(self) -> bool:
        """Whether kernels take its steps on a CPU, not torch's operations one after the other."""
        return self.returns_kernel_output and (_has_kernel(self) or self.is_linear)

    def start(self, state: Tensor) -> Tensor:
        return self.update.start(state)

    def finish(self, working: Tensor) -> Tensor:
        return self.update.visible(working)

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        """The next working state, `[n, s]`, of nodes in `state` that received `messages`, `[n, d]`.

        States that are narrower than the parameters are multiplied by them in their own type.
        """
        by_kernel = isinstance(self.update, StateUpdate) and self.update.has_kernels(state)
        narrow = state.dtype in (torch.bfloat16, torch.float16) and not by_kernel
        if not narrow or torch.is_autocast_enabled(state.device.type):
            return self.update(state, messages, step)
        with torch.autocast(state.device.type, dtype=state.dtype, cache_enabled=False):
            return self.update(state, messages, step).to(state.dtype)

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        whole = advance_by_kernel(self, block, inputs, step)
        if whole is not None:
            return whole
        own, visible = inputs[: block.num_rows], self.update.visible(inputs)
        return self(own, aggregate_messages(block, visible, self.message, self.aggregate), step)

    def advance_steps(
        self, block: Block, inputs: Tensor, steps: Sequence[Step], rows: Tensor | None = None
    ) -> Tensor | None:
        """The working state after all steps, where one kernel takes them; None where :meth:`advance` must.

        With `rows`, `[w]`, that of those among the rows of the block, `[w, s]`.
        """
        if not self.returns_kernel_output:
            return None
        if self.is_linear:
            return advance_linear_steps(self, block, inputs, steps, rows)
        return advance_steps_by_kernel(self, block, inputs, len(steps), rows)

    @property
    def takes_blocks(self) -> bool:
        """Whether :meth:`advance_blocks` takes blocks of edges of one type, on a CPU and outside autocast."""
        return self.returns_kernel_output and _is_gated(self)

    def begin_blocks(self, state: Tensor, step: Step) -> Tensor:
        """What a first step makes of the rows' own states, `[n, d]`, before any message, for :meth:`advance_blocks`."""
        assert isinstance(self.update, GRUUpdate)
        return nn.functional.linear(state, self.update.weight_hh)

    def advance_blocks(
        self,
        blocks: Sequence[Block],
        inputs: Sequence[Tensor],
        state: Tensor,
        steps: Sequence[Step],
        begun: Tensor | None = None,
    ) -> Tensor:
        """The rows that all blocks of a phase write after all steps, block by block, `[n, d]`.

        Args:
            blocks: none of which reads what another writes, but as it was.
            inputs: for each block, where what it reads stands in `state`, `[m]`.
            state: `[r, d]`.
            steps: of the phase.
            begun: what :meth:`begin_blocks` gave of the rows, block by block; None: it was not called.
        """
        found = [_arguments(self, block, state) for block in blocks]
        pieces = [Piece(operator, diagonal, rows) for (operator, diagonal, *_), rows in zip(found, inputs)]
        return gated_blocks(pieces, state, found[0][-1], len(steps), begun)


class CellBank(nn.Module):
    """Several cells, of which each step uses one: one per round, or one per kind of phase.

    Args:
        cells: the cells; they must share their working state's form.
        kinds: the kind of phase that each cell is for; kinds that are not named use the first. None: cell t is for
            round t, and rounds past the last cell use the last.
    """

    random = False

    def __init__(self, cells: Sequence[Cell], kinds: Sequence[str] | None = None) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.kinds = kinds

    def choose(self, step: Step) -> int:
        """Number of the cell for a step."""
        if self.kinds is None:
            return min(step.round, len(self.cells) - 1)
        return self.kinds.index(step.kind) if step.kind in self.kinds else 0

    @property
    def residual(self) -> bool:
        return any(cell.residual for cell in self.cells)

    @property
    def local(self) -> bool:
        return all(cell.local for cell in self.cells)

    @property
    def returns_kernel_output(self) -> bool:
        """As :attr:`Cell.returns_kernel_output`, of all cells."""
        return all(cell.returns_kernel_output for cell in self.cells)

    @property
    def steps_by_kernel(self) -> bool:
        """As :attr:`Cell.steps_by_kernel`, of all cells."""
        return all(cell.steps_by_kernel for cell in self.cells)

    def start(self, state: Tensor) -> Tensor:
        return self.cells[0].start(state)  # type: ignore[operator]

    def finish(self, working: Tensor) -> Tensor:
        return self.cells[0].finish(working)  # type: ignore[operator]

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        return self.cells[self.choose(step)].advance(block, inputs, step)  # type: ignore[operator]

    def advance_steps(
        self, block: Block, inputs: Tensor, steps: Sequence[Step], rows: Tensor | None = None
    ) -> Tensor | None:
        """As :meth:`Cell.advance_steps`; the steps are those of one phase, which has one cell."""
        return self.cells[self.choose(steps[0])].advance_steps(block, inputs, steps, rows)  # type: ignore[operator]

    @property
    def takes_blocks(self) -> bool:
        """As :attr:`Cell.takes_blocks`, of all cells."""
        return all(cell.takes_blocks for cell in self.cells)

    def begin_blocks(self, state: Tensor, step: Step) -> Tensor:
        """As :meth:`Cell.begin_blocks`."""
        return self.cells[self.choose(step)].begin_blocks(state, step)  # type: ignore[operator]

    def advance_blocks(
        self,
        blocks: Sequence[Block],
        inputs: Sequence[Tensor],
        state: Tensor,
        steps: Sequence[Step],
        begun: Tensor | None = None,
    ) -> Tensor:
        """As :meth:`Cell.advance_blocks`; the steps are those of one phase, which has one cell."""
        cell = self.cells[self.choose(steps[0])]
        return cell.advance_blocks(blocks, inputs, state, steps, begun)  # type: ignore[operator]


def build_cell(
    message: str,
    update: str,
    aggregate: str,
    options: Mapping[str, Any],
    channels: int,
    num_edge_types: int,
    generator: torch.Generator,
) -> Cell:
    """A cell from the names of its message and update functions."""
    check_choice("message", message, MESSAGES)
    check_choice("cell", update, UPDATES)
    sender = MESSAGES[message](channels, num_edge_types, generator)
    try:
        updater = UPDATES[update](channels, generator, **options)
    except TypeError as error:
        raise ValueError(f"`cell_options` must be arguments of the cell {update!r}. Got {dict(options)}.") from error
    return Cell(sender, updater, aggregate)


def share_cells(
    sharing: str, make: Callable[[], Cell], num_rounds: int | None, kinds: Sequence[str] | None
) -> Cell | CellBank:
    """One cell for all steps, one per round, or one per kind of phase.

    Args:
        sharing: "shared", "round" or "kind".
        make: a new cell.
        num_rounds: number of rounds, needed by "round".
        kinds: the kinds of phase that have a cell of their own under "kind"; None: those of the partitioned schedule.

    Raises:
        ValueError: when the sharing is unknown, is "round" without a number of rounds, or a kind comes twice or none.
    """
    check_choice("sharing", sharing, SHARINGS)
    if sharing == "shared":
        return make()
    if sharing == "kind":
        known = KINDS if kinds is None else tuple(kinds)
        if not known or len(set(known)) < len(known):
            raise ValueError(f"`kinds` must be distinct, at least one. Got {known}.")
        return CellBank([make() for _ in known], known)
    if num_rounds is None:
        raise ValueError("The sharing 'round' needs `num_rounds`. Got None.")
    return CellBank([make() for _ in range(num_rounds)])


def advance_by_kernel(cell: Cell, block: Block, inputs: Tensor, step: Step) -> Tensor | None:
    """The rows that `block` writes, `[n, d]`, where one kernel takes the whole step; None where none does."""
    if not _applies(cell, block, inputs):
        return None
    arguments = _arguments(cell, block, inputs)
    if isinstance(cell.update, GRUUpdate):
        return gated_step(*arguments, kept=step.synchronous)
    return convolution_step(_form(cell), *arguments)


def advance_steps_by_kernel(
    cell: Cell, block: Block, inputs: Tensor, repeat: int, rows: Tensor | None = None
) -> Tensor | None:
    """The same after `repeat` steps; with `rows`, `[w]`, those alone, `[w, d]`."""
    if not _applies(cell, block, inputs):
        return None
    arguments = _arguments(cell, block, inputs)
    if isinstance(cell.update, GRUUpdate):
        return gated_steps(*arguments, repeat, rows)
    return convolution_steps(_form(cell), *arguments, repeat, rows)


def advance_linear_steps(
    cell: Cell, block: Block, inputs: Tensor, steps: Sequence[Step], rows: Tensor | None = None
) -> Tensor | None:
    """The same of a linear cell, by :func:`gpnn.kernels.linear.linear_steps`."""
    if len(block.operators) != 1 or not has_kernels(inputs):
        return None
    assert isinstance(cell.update, LinearUpdate)
    alpha = cell.update.alpha_of(steps[0])
    whole = linear_steps(*_adjacency(cell, block, inputs), inputs, len(steps), steps[0].initial, alpha)
    return whole if whole is None or rows is None else whole.index_select(0, rows)


def _adjacency(cell: Cell, block: Block, inputs: Tensor) -> tuple[Operator, Tensor | None]:
    """The operator that sums a block's messages, and the weights of those to oneself."""
    if cell.aggregate == "sum":
        return block.raw_operators[0], None
    return block.operators_for(inputs.dtype)[0], block.diagonal


def _arguments(cell: Cell, block: Block, inputs: Tensor) -> tuple[Operator, Tensor | None, Tensor, tuple[Tensor, ...]]:
    """Adjacency, diagonal, states and parameters of the kernel.

    A sum is linear, so that a linear message's map W moves behind it and into the update: W_ih (Σ h W) = (W_ih Wᵀ) Σ h.
    A product of [d, d] then takes the place of one of [m, d].
    """
    message, update = cell.message, cell.update
    before = message.weight[0] if isinstance(message, LinearMessage) else None
    if isinstance(update, GRUUpdate):
        weight: Tensor = update.weight_ih
        weight = weight if before is None else weight @ before.T
        parameters: tuple[Tensor, ...] = (weight, update.weight_hh, update.bias_ih, update.bias_hh)
    else:
        assert isinstance(update, ConvolutionUpdate)
        weight, *others = update.ordered_parameters()
        parameters = (weight if before is None else before @ weight, *others)
    return *_adjacency(cell, block, inputs), inputs, parameters


def kernel_bytes(cell: Cell, block: Block, inputs: Tensor) -> Callable[[int], float] | None:
    """Bytes that the kernel's backward pass takes for a number of rows, its results aside; None where it has none.

    A convolution on a CPU has chunks in a core's cache as gated units have, but not all steps of a block in one go.
    """
    gated = isinstance(cell.update, GRUUpdate)
    if not _applies(cell, block, inputs) or not (gated or inputs.is_cuda):
        return None
    if not inputs.is_cuda:
        return lambda num_rows: 0.0  # chunks in a core's cache
    if gated:
        from gpnn.kernels.gpu_gru import work_bytes
    else:
        from gpnn.kernels.gpu_convolution import work_bytes

    return partial(work_bytes, inputs)


def _applies(cell: Cell, block: Block, inputs: Tensor) -> bool:
    if len(block.operators) != 1 or (not inputs.is_cuda and block.operators[0].col_scale is not None):
        return False
    if not _has_kernel(cell):
        return False
    return has_kernels(inputs, next(iter(cell.update.parameters())))  # type: ignore[attr-defined]


def _has_kernel(cell: Cell) -> bool:
    """Whether a step of the cell is a gated unit, or a convolution, of sums of states."""
    update, message = cell.update, cell.message
    if cell.aggregate not in ("mean", "sum"):
        return False
    if not (isinstance(message, IdentityMessage) or (isinstance(message, LinearMessage) and len(message.weight) == 1)):
        return False
    convolution = isinstance(update, ConvolutionUpdate) and update.form is not None
    return convolution or (isinstance(update, GRUUpdate) and update.reset == "after")


def _is_gated(cell: Cell) -> bool:
    return isinstance(cell.update, GRUUpdate) and _has_kernel(cell)


def _form(cell: Cell) -> Convolution:
    assert isinstance(cell.update, ConvolutionUpdate)
    assert cell.update.form is not None
    return cell.update.form


class DroppedCell:
    """A cell, of whose change of a state each entry is dropped: h' = h + mask · (cell(h) − h).

    What a state holds is not lost (Semeniuta et al. 2016); a residual cell so has the dropout of its branch. The masks
    follow from the key, the step and the node, so that a step that is computed again sees the same ones.

    Args:
        cell: whose working state is its visible one, or holds more.
        p: probability that an entry is dropped.
        key: of the pass.
        plan: which node stands in each row.
    """

    random = False

    def __init__(self, cell: CellLike, p: float, key: MaskKey, plan: Plan) -> None:
        self.cell, self.p, self.key, self.nodes = cell, p, key, _nodes_by_row(plan)
        self.residual, self.local = cell.residual, cell.local
        self.start, self.finish = cell.start, cell.finish

    def parameters(self) -> Iterator[Tensor]:
        return self.cell.parameters()

    def advance(self, block: Block, inputs: Tensor, step: Step) -> Tensor:
        own, new = inputs[: block.num_rows], self.cell.advance(block, inputs, step)
        key = self.key._replace(nodes=self.nodes[block.rows])
        return own + drop_entries(new - own, self.p, key, hash_key(step.round, step.phase, step.repeat))


def _nodes_by_row(plan: Plan) -> Tensor:
    """The user's node in each plan row, `[N + V]`; virtual nodes have numbers after all others."""
    rows = torch.arange(plan.num_nodes + plan.num_virtual, device=plan.device) if plan.order is None else plan.order
    if plan.nodes is None:
        return rows
    virtual = plan.nodes.new_full((plan.num_virtual,), torch.iinfo(torch.int32).max)
    return torch.cat([plan.nodes, virtual])[rows]
