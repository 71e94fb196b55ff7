"""ShardedPlan: one process's share of a schedule, lowered, and of the parameters; all processes lower together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from gpnn.distributed.halo_exchange import HaloExchange, build_exchange
from gpnn.distributed.process_group import SINGLE, ProcessGroup
from gpnn.distributed.schedules import restrict, shard_schedule
from gpnn.distributed.shard import NodeOrder, Shard, ShardBuilder
from gpnn.engine.block import Block, BlockBuilder, Messages
from gpnn.engine.lowered_phase import LoweredPhase, join_rows
from gpnn.engine.normalize import Normalizer, bind_rule
from gpnn.engine.plan import Plan
from gpnn.kernels.execution import num_threads
from gpnn.schedule import Phase, Schedule


@dataclass(frozen=True, eq=False)
class Ownership:
    """Which rank owns which nodes of a whole graph, for `lower(…, shard=)`.

    Attributes:
        order: the order of the nodes, and the range of each rank.
        group: the processes.
    """

    order: NodeOrder
    group: ProcessGroup

    def lower(
        self,
        schedule: Schedule,
        device: torch.device | str,
        normalization: str,
        *,
        self_loops: bool,
        edge_digest: int | None,
    ) -> ShardedPlan:
        """This process's plan of any schedule of a whole graph that every process holds; collective.

        `edge_digest` is that of :class:`~gpnn.engine.Plan`.
        """
        shard = ShardBuilder(schedule.graph, self.order, schedule.num_virtual).build(self.group.rank)
        halo = build_exchange(shard.halo, shard.bounds, self.group, device)
        plan = _lower(restrict(schedule, shard), shard, self.group, halo, device, normalization, self_loops)
        return replace(plan, edge_digest=edge_digest)


@dataclass(frozen=True, eq=False)
class ShardedPlan(Plan):
    """The :class:`~gpnn.engine.Plan` of one process.

    Its nodes are the process's own, subgraph after subgraph: row i stands for the user's node `nodes[i]`, in features,
    labels, states and results alike. Messages and updates are counted over all processes.

    Attributes:
        shard: what this process owns.
        group: the processes.
        halo: brings all rows elsewhere that any edge into an own row comes from; None where no process has any.
        counts: messages sent and node updates done in all rounds, by all processes.
    """

    shard: Shard
    group: ProcessGroup
    halo: HaloExchange | None
    counts: tuple[int, int]

    @property
    def num_messages(self) -> int:
        return self.counts[0]

    @property
    def num_updates(self) -> int:
        return self.counts[1]

    @property
    def runners(self) -> Mapping[str, Callable[..., list[Tensor]]]:
        from gpnn.distributed.runner import Sharded

        return {"fused": Sharded(), "streamed": Sharded(recompute=True)}

    @cached_property
    def nodes(self) -> Tensor:
        """The user's node in each row, int64, `[n]`, on the plan's device."""
        return self.shard.nodes[: self.num_nodes].to(self.device)


def group_of(plan: Plan) -> ProcessGroup:
    """The process group that a plan was lowered for, of size 1 where it is the whole graph's."""
    return plan.group if isinstance(plan, ShardedPlan) else SINGLE


def lower_shard(
    shard: Shard,
    group: ProcessGroup,
    *,
    schedule: str = "partitioned",
    rounds: int = 5,
    options: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    normalization: str = "phase",
    self_loops: bool = False,
) -> ShardedPlan:
    """This process's plan of a schedule that each process can make of its own shard; collective.

    Args:
        shard: what this process owns.
        group: the processes.
        schedule: a name of `SHARD_SCHEDULES`.
        rounds: number of rounds.
        options: the schedule's own, such as `intra` and `cut`.
        device: where the plan lives.
        normalization: a rule of :mod:`gpnn.engine.normalize`; degrees are the whole graph's.
        self_loops: every node also receives its own message.

    Raises:
        ValueError: for an unknown schedule, option or rule.
    """
    halo = build_exchange(shard.halo, shard.bounds, group, device)
    made = shard_schedule(schedule, shard, halo, group, rounds=rounds, options=options)
    return _lower(made, shard, group, halo, device, normalization, self_loops)


def _lower(
    schedule: Schedule,
    shard: Shard,
    group: ProcessGroup,
    halo: HaloExchange | None,
    device: torch.device | str,
    normalization: str,
    self_loops: bool,
) -> ShardedPlan:
    rule = _global_rule(normalization, shard, halo, self_loops)
    builder = BlockBuilder(shard.graph, device)
    builder.num_edge_types = shard.totals.num_edge_types  # the types that this process sees may be fewer
    lowered: dict[int, LoweredPhase] = {}
    for phase in schedule.distinct_phases():
        exchange, ghosts = _exchange(phase.listed, shard, group, device)
        own_rule = rule._replace(complete=_Completion(exchange, ghosts, shard.num_own))
        check = schedule.check_unchanged
        few = not phase.has_blocks or phase.num_blocks < num_threads()
        blockwise = not group.any(few)[0]
        sharded = ShardedPhase(phase.listed, own_rule, None, builder, 0, check, exchange, shard.num_own, blockwise)
        sharded.prepare()
        lowered[id(phase)] = sharded
    rounds = tuple(tuple(lowered[id(phase)] for phase in phases) for phases in schedule.rounds)
    messages, updates = group.all_reduce(torch.tensor([schedule.num_messages, schedule.num_updates])).tolist()
    return ShardedPlan(
        rounds=rounds,
        order=None,
        device=torch.device(device),
        normalization=normalization,
        num_nodes=shard.num_own - shard.num_virtual,
        num_virtual=shard.num_virtual,
        num_edge_types=shard.totals.num_edge_types,
        source=schedule,
        edge_digest=None,
        shard=shard,
        group=group,
        halo=halo,
        counts=(messages, updates),
    )


def _exchange(
    phase: Phase, shard: Shard, group: ProcessGroup, device: torch.device | str
) -> tuple[HaloExchange | None, Tensor]:
    """How the rows elsewhere that a phase reads come here, and their local rows."""
    src = shard.graph.src[phase.edges if phase.held is None else torch.cat([phase.edges, phase.held])]
    ghosts = src[src >= shard.num_own].unique()
    return build_exchange(shard.halo[ghosts - shard.num_own], shard.bounds, group, device), ghosts


def _global_rule(normalization: str, shard: Shard, halo: HaloExchange | None, self_loops: bool) -> Normalizer:
    """The rule with the degrees of the whole graph: halo rows get theirs from their owners."""
    rule = bind_rule(normalization, shard.graph, shard.virtual, self_loops)
    if halo is not None:
        rule.degree[shard.num_own :] = halo.values(rule.degree[: shard.num_own])
    return rule


class _Completion:
    """Fills in the in-weights that senders elsewhere have inside a phase."""

    def __init__(self, exchange: HaloExchange | None, ghosts: Tensor, num_own: int) -> None:
        self.exchange, self.ghosts, self.num_own = exchange, ghosts, num_own

    def __call__(self, inside: Tensor) -> None:
        if self.exchange is not None:
            inside[self.ghosts] = self.exchange.values(inside[: self.num_own])


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters that learn and are this process's own (rows of its nodes), and those that all share."""
    own = set(own_names(model))
    learning = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    return [each for name, each in learning if name in own], [each for name, each in learning if name not in own]


def own_names(model: nn.Module) -> Iterator[str]:
    """The names of the parameters that have a row for each own node: those of modules that say for which `nodes`."""
    for prefix, module in model.named_modules():
        if getattr(module, "nodes", None) is not None:
            for name, _ in module.named_parameters(recurse=False):
                yield f"{prefix}.{name}" if prefix else name


@dataclass(frozen=True, eq=False)
class ShardedPhase(LoweredPhase):
    """A lowered phase whose senders may live elsewhere.

    Attributes:
        exchange: brings the rows that are read and owned elsewhere; None where no process reads any.
        num_own: number of rows that this process owns.
        blockwise: whether every process has a block of the phase's own for each of its threads.
    """

    exchange: HaloExchange | None = None
    num_own: int = 0
    blockwise: bool = False

    def prepare(self) -> None:
        """Build the blocks that running needs in any case; collective, as weights may need degrees from elsewhere."""
        _ = self.row_index
        if self.exchanges_steps:
            _ = self.interior_and_boundary
        elif self.repeat == 1:
            _ = self.whole

    @property
    def exchanges_steps(self) -> bool:
        """Whether each repeat exchanges rows; where messages are held, one exchange serves all repeats."""
        return self.exchange is not None and (self.phase.held is None or self.repeat == 1)

    @cached_property
    def interior_and_boundary(self) -> tuple[Block, Block]:
        """The rows that receive messages from own rows only, and those that receive one from another process.

        The inputs of the boundary block end in the received rows, in the order in which they come.
        """
        messages = self.messages()
        waits = torch.zeros(self.num_own, dtype=torch.bool)  # which own rows need a received row
        waits[messages.dst[messages.src >= self.num_own]] = True
        node_waits, edge_waits = waits[messages.nodes], waits[messages.dst]
        interior = self._part(messages, ~node_waits, ~edge_waits)
        return interior, self._part(messages, node_waits, edge_waits)

    @cached_property
    def row_index(self) -> Tensor:
        """The rows that the phase writes, `[n]`: those of the interior, then those of the boundary."""
        if not self.exchanges_steps:
            return self.phase.nodes.to(self.builder.device)
        return join_rows([block.rows for block in self.interior_and_boundary], self.builder.device)

    @cached_property
    def replaces_all(self) -> bool:
        """Whether the rows that the phase writes are all own rows in their order."""
        return torch.equal(self.row_index.cpu(), torch.arange(self.num_own))

    def read(self, state: Tensor, received: Tensor) -> Tensor:
        """The inputs of the boundary block, `[m, s]`: rows of `state`, then the received ones."""
        block = self.interior_and_boundary[1]
        own = block.num_inputs - len(received)
        if isinstance(block.inputs, slice):
            return torch.cat([state[block.inputs.start : block.inputs.start + own], received])
        return torch.cat([state.index_select(0, block.inputs[:own]), received])

    def read_held(self, state: Tensor, received: Tensor) -> Tensor:
        """The inputs of the whole phase, `[m, s]`: rows of `state`, and the received ones among them."""
        rows, first = self._own_inputs
        own = state.index_select(0, rows)
        return torch.cat([own[:first], received, own[first:]])

    @cached_property
    def places(self) -> tuple[Tensor, ...]:
        """For each of `blocks`, where its inputs stand among the own rows and, after them, the received ones, `[m]`."""
        inputs = [join_rows([block.inputs], self.builder.device) for block in self.blocks]
        received = torch.cat([rows[rows >= self.num_own] for rows in inputs]).unique()
        found = (self.num_own + torch.searchsorted(received, rows) for rows in inputs)
        return tuple(torch.where(rows < self.num_own, rows, place) for rows, place in zip(inputs, found))

    @cached_property
    def _own_inputs(self) -> tuple[Tensor, int]:
        """The own rows that the whole phase reads, `[m − r]`, and how many of them come before the received rows."""
        inputs = join_rows([self.whole.inputs], self.builder.device)
        own = inputs < self.num_own
        return inputs[own], int((~own).int().argmax()) if not bool(own.all()) else len(inputs)

    def _part(self, messages: Messages, nodes: Tensor, edges: Tensor) -> Block:
        return self.builder.build(messages.select(nodes.nonzero().flatten(), edges.nonzero().flatten()))
