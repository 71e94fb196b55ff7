"""This process's share of a schedule: of one that every process holds, or described over its own shard alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.distributed.halo_exchange import HaloExchange
from gpnn.distributed.process_group import ProcessGroup
from gpnn.distributed.shard import Shard
from gpnn.graph import Graph
from gpnn.partition import Partition
from gpnn.schedule import Phase, Schedule
from gpnn.schedule.make_schedule import make_schedule

SHARD_SCHEDULES = (
    "partitioned",
    "held_cut",
    "synchronous",
)  # those whose phases follow from the subgraphs of an edge's two ends


def shard_schedule(
    name: str,
    shard: Shard,
    halo: HaloExchange | None,
    group: ProcessGroup,
    *,
    rounds: int,
    options: Mapping[str, Any] | None = None,
) -> Schedule:
    """This process's share of a schedule of which no process holds the whole graph; collective.

    It is the ordinary schedule over the local rows, restricted to own rows and the edges into them.

    Args:
        name: a name of `SHARD_SCHEDULES`.
        shard: what this process owns.
        halo: how the rows of `shard.halo` come here; None where no process has any.
        group: the processes.
        rounds: number of rounds.
        options: the schedule's own, such as `intra` and `cut`.

    Raises:
        ValueError: when the schedule needs the whole graph, or an option is unknown.
    """
    if name not in SHARD_SCHEDULES:
        known = ", ".join(SHARD_SCHEDULES)
        raise ValueError(f"Several processes can run the schedules {known} from a folder of shards. Got {name!r}.")
    graph, part = _surroundings(shard, halo)
    local = make_schedule(name, graph, part, rounds=rounds, options=options)
    if local.num_virtual:
        raise ValueError(f"Several processes have no virtual nodes: `virtual` must be None. Got {dict(options or {})}.")
    edge, row = torch.arange(graph.num_edges), torch.arange(graph.num_nodes)
    edge[shard.graph.num_edges :] = -1
    row[shard.num_own :] = -1
    return _without_empty_phases(_restrict(local, shard.graph, edge, row), group)


def restrict(schedule: Schedule, shard: Shard) -> Schedule:
    """This process's share of any schedule of the whole graph: the edges into own rows, the own rows that update.

    Args:
        schedule: of the whole graph, virtual nodes included.
        shard: of the schedule's graph.
    """
    edge = torch.full((schedule.graph.num_edges,), -1, dtype=torch.int64)
    edge[shard.edges] = torch.arange(shard.edges.numel())
    row = torch.full((schedule.graph.num_nodes,), -1, dtype=torch.int64)
    row[shard.nodes] = torch.arange(shard.num_own)
    return _restrict(schedule, shard.graph, edge, row)


def _surroundings(shard: Shard, halo: HaloExchange | None) -> tuple[Graph, Partition]:
    """The local rows and two more, in subgraphs of their own, and which subgraph each row is in.

    Own rows that other processes read send to the first of the two: they are at the cut, as in the whole graph. It also
    sends to itself and to the second, so that every rank has the same phases, be it without edges in some of them.
    """
    graph, num_parts = shard.graph, shard.part_ptr.numel() - 1
    first, second = graph.num_nodes, graph.num_nodes + 1
    sent = shard.halo[:0] if halo is None else halo.send_rows.cpu().unique()
    src = torch.cat([graph.src, sent, torch.tensor([first, first])])
    dst = torch.cat([graph.dst, torch.full_like(sent, first), torch.tensor([first, second])])
    elsewhere = torch.full((len(shard.halo),), num_parts)  # a sender that another process owns is in another subgraph
    labels = torch.cat([shard.labels, elsewhere, torch.tensor([num_parts + 1, num_parts])])
    return Graph(src, dst, graph.num_nodes + 2), Partition(labels, num_parts + 2)


def _restrict(schedule: Schedule, graph: Graph, edge: Tensor, row: Tensor) -> Schedule:
    """The schedule over `graph`, given the new id of each edge `[E]` and node `[N]`, or -1 where it is not kept."""
    shares = {id(phase): _share(phase.listed, edge, row) for phase in schedule.distinct_phases()}
    rounds = {id(phases): tuple(shares[id(phase)] for phase in phases) for phases in schedule.rounds}
    return Schedule(graph, tuple(rounds[id(phases)] for phases in schedule.rounds))


def _share(phase: Phase, edge: Tensor, row: Tensor) -> Phase:
    """The phase of the kept edges and nodes; every field of a phase that holds ids is translated here."""
    ids = [edge[phase.edges], row[phase.nodes], *([] if phase.held is None else [edge[phase.held]])]
    edges, nodes, *held = (each[each >= 0] for each in ids)
    share = Phase(edges, nodes, phase.repeat, phase.kind, closing=phase.closing, held=held[0] if held else None)
    ends = [ptr for ptr in (phase.edge_ptr, phase.node_ptr, phase.held_ptr) if ptr is not None]
    if not ends:
        return share
    begin = torch.stack([pointers(each >= 0)[ptr] for each, ptr in zip(ids, ends)])
    starts = begin.unique_consecutive(dim=1)  # without blocks of which nothing is kept
    return replace(share, edge_ptr=starts[0], node_ptr=starts[1], held_ptr=starts[2] if held else None)


def _without_empty_phases(schedule: Schedule, group: ProcessGroup) -> Schedule:
    """The schedule without phases that are empty in every process, which the whole graph's does not have either."""
    sizes = [phase.num_messages + phase.num_updates for phase in schedule.rounds[0]]
    filled = group.any(*(size > 0 for size in sizes))
    phases = tuple(phase for phase, keep in zip(schedule.rounds[0], filled) if keep)
    return Schedule(schedule.graph, (phases,) * schedule.num_rounds)
