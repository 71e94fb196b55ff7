"""What the tests of sharded propagation run in several processes."""

from __future__ import annotations

import torch
from torch import Tensor

import gpnn
from gpnn.distributed import (
    NodeOrder,
    Ownership,
    ProcessGroup,
    ShardBuilder,
    build_exchange,
    lower_shard,
    measure_shards,
    number_parts,
)
from gpnn.distributed.halo_exchange import PendingExchange
from gpnn.distributed.schedules import shard_schedule
from gpnn.engine import Step, propagate
from tests.oracle.engine_cases import gradients, make_cell, make_schedule, multigraph, states

LABELS = torch.tensor([0, 3, 1, 0, 3, 1, 0, 1, 3, 3])  # part 2 is empty
NUM_NODES = 10


def node_order(num_ranks: int, graph: gpnn.Graph) -> NodeOrder:
    """The rows of the ten-node graph: two processes share three subgraphs, four have two and a half nodes each."""
    part = gpnn.Partition(LABELS, 4) if num_ranks < 4 else gpnn.Partition([0, 3, 1, 0, 3, 1, 0, 2, 3, 3], 4)
    return NodeOrder.of(graph, part, num_ranks)


def owned_case(
    group: ProcessGroup, name: str, cell: dict, lowering: dict, options: dict, runner: str = "fused"
) -> tuple[Tensor, Tensor, list[Tensor | None], Tensor, tuple[int, int]]:
    """Own nodes, states, parameter gradients (own share), gradients of the initial states, and the plan's counts."""
    graph = multigraph(**options)
    plan = gpnn.lower(
        graph, make_schedule(name, graph), shard=Ownership(node_order(group.size, graph), group), **lowering
    )
    return _run(plan, make_cell(**cell), runner)


def shard_case(
    group: ProcessGroup, name: str, schedule: dict, cell: dict, lowering: dict
) -> tuple[Tensor, Tensor, list[Tensor | None], Tensor, tuple[int, int]]:
    """The same, where each process makes the schedule of its own shard."""
    graph = multigraph()
    where = NodeOrder.of(graph, gpnn.Partition(LABELS, 4), group.size)
    shard = ShardBuilder(graph, where).build(group.rank)
    plan = lower_shard(shard, group, schedule=name, rounds=2, options=schedule, **lowering)
    return _run(plan, make_cell(**cell))


def traffic_case(group: ProcessGroup, name: str, rounds: int, intra: int | None) -> int:
    """Bytes that this process sends in a forward and a backward pass."""
    graph = multigraph()
    where = node_order(group.size, graph)
    shard = ShardBuilder(graph, where).build(group.rank)
    options = {} if intra is None else {"intra": intra}
    plan = lower_shard(shard, group, schedule=name, rounds=rounds, options=options)
    before = group.traffic.sent
    _run(plan, make_cell())
    return group.traffic.sent - before


def order_case(group: ProcessGroup) -> list[str]:
    """What happens in a forward and a backward pass of one round of three held steps, in its order."""
    graph = multigraph(num_types=1)
    shard = ShardBuilder(graph, node_order(group.size, graph)).build(group.rank)
    plan = lower_shard(shard, group, schedule="held_cut", rounds=1, options={"intra": 3})
    events: list[str] = []
    cell = make_cell(num_edge_types=1)

    def log(owner: type, name: str, word: str) -> None:
        method = getattr(owner, name)

        def logged(*given: object) -> object:
            events.append(word)
            return method(*given)

        setattr(owner, name, logged)

    def begin(state: Tensor, step: Step) -> Tensor:
        events.append("products")
        begun = type(cell).begin_blocks(cell, state, step)
        begun.register_hook(lambda grad: events.append("gradients of products"))
        return begun

    cell.begin_blocks = begin
    log(ProcessGroup, "start_all_to_all", "start")
    log(PendingExchange, "_finish_transfer", "wait")
    _run(plan, cell)
    return events


def share_case(group: ProcessGroup, edges: tuple, labels: list[int], name: str, options: dict) -> list[tuple]:
    """Kind, repeat, edges, nodes and held edges (global ids) of each phase that this process makes of its shard."""
    graph = gpnn.Graph(*edges, num_nodes=len(labels))
    shard = ShardBuilder(graph, NodeOrder.of(graph, gpnn.Partition(labels, 4), group.size)).build(group.rank)
    halo = build_exchange(shard.halo, shard.bounds, group)
    made = shard_schedule(name, shard, halo, group, rounds=2, options=options)
    assert made.rounds[0] is made.rounds[1]
    shares = []
    for phase in made.rounds[0]:
        held = [] if phase.held is None else shard.edges[phase.held].tolist()
        ids = (shard.edges[phase.edges].tolist(), shard.nodes[phase.nodes].tolist(), held)
        shares.append((phase.kind, phase.repeat, *ids))
    return shares


def convolution_case(group: ProcessGroup) -> None:
    """A convolution that reads its senders' degrees, which no process knows of senders elsewhere."""
    from torch_geometric.nn import GCNConv

    graph = multigraph()
    made = gpnn.schedule.synchronous(graph, 1)
    plan = gpnn.lower(graph, made, shard=Ownership(node_order(group.size, graph), group))
    gpnn.nn.Scheduled(GCNConv(3, 3))(torch.ones(plan.num_nodes, 3), plan)


def second_derivative_case(group: ProcessGroup, name: str, runner: str) -> str:
    """What this process answers to a gradient that is to be differentiated again."""
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule(name, graph), shard=Ownership(node_order(group.size, graph), group))
    state = states()[plan.nodes].requires_grad_()
    try:
        torch.autograd.grad(propagate(make_cell(), plan, state, runner=runner).sum(), state, create_graph=True)
    except RuntimeError as error:
        return str(error)
    return "no answer"


def changed_graph_case(group: ProcessGroup) -> bool:
    """Whether an in-place change of the graph after `lower` leaves this process's states as they are."""
    graph = multigraph()
    schedule = make_schedule("partitioned", graph)
    plan = gpnn.lower(graph, schedule, shard=Ownership(node_order(group.size, graph), group))
    other = gpnn.lower(graph, schedule, shard=Ownership(node_order(group.size, graph), group))
    graph.src[:] = graph.src.flip(0)
    results = [propagate(make_cell(), each, states()[plan.nodes]) for each in (plan, other)]
    return torch.equal(*results) and torch.allclose(results[0], whole_states()[plan.nodes], rtol=0, atol=1e-12)


def whole_states() -> Tensor:
    """The states of all nodes after the partitioned schedule in one process."""
    graph = multigraph()
    return propagate(make_cell(), gpnn.lower(graph, make_schedule("partitioned", graph)), states())


def quality_case(
    group: ProcessGroup, src: Tensor, dst: Tensor, labels: Tensor, train: Tensor
) -> gpnn.partition.Quality:
    """What the processes measure of a partition into seven subgraphs, with these training nodes."""
    graph = gpnn.Graph(src, dst, num_nodes=len(labels))
    where = NodeOrder.of(graph, gpnn.Partition(labels, 7), group.size)
    shard = ShardBuilder(graph, where).build(group.rank)
    halo = build_exchange(shard.halo, shard.bounds, group)
    own = torch.isin(shard.nodes, train).nonzero().flatten()
    return measure_shards(shard, halo, group, number_parts(shard, halo, group), own)


def whole_case(plan: gpnn.Plan, cell: dict) -> tuple[Tensor, list[Tensor | None], Tensor]:
    """States, parameter gradients and gradients of the initial states in one process."""
    _, out, grads, state_grad, _ = _run(plan, make_cell(**cell))
    return out, grads, state_grad


def _run(plan: gpnn.Plan, cell: torch.nn.Module, runner: str = "fused") -> tuple:
    nodes = torch.arange(plan.num_nodes) if plan.nodes is None else plan.nodes
    state = states()[nodes].requires_grad_()
    out = propagate(cell, plan, state, runner=runner)
    random = torch.Generator().manual_seed(3)
    slope = torch.randn(NUM_NODES, out.shape[1], generator=random, dtype=out.dtype)[nodes]
    state_grad, *grads = torch.autograd.grad((out * slope).sum(), [state, *cell.parameters()], allow_unused=True)
    return nodes, out.detach(), grads, state_grad, (plan.num_messages, plan.num_updates)


__all__ = ["gradients", "node_order", "owned_case", "quality_case", "shard_case", "whole_case"]
