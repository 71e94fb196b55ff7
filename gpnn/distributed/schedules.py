"""This process's share of a schedule: of one that every process holds, or described over its own shard alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.diel import best_pairs
from gpnn.distributed.halo_exchange import HaloExchange
from gpnn.distributed.process_group import ProcessGroup
from gpnn.distributed.shard import Shard
from gpnn.graph import Graph
from gpnn.partition import Partition
from gpnn.partition.partition import Quality, largest_over_mean
from gpnn.schedule import Phase, Schedule
from gpnn.schedule.make_schedule import make_schedule

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.distributed.plan import ShardedPlan


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


class Numbering(NamedTuple):
    """The subgraphs that have nodes, numbered in the node order, over all processes.

    Attributes:
        parts: the subgraph of each local row, own rows first, then the halo, `[n + h]`.
        num_filled: how many there are in all.
    """

    parts: Tensor
    num_filled: int


def number_parts(shard: Shard, halo: HaloExchange | None, group: ProcessGroup) -> Numbering:
    """Which subgraph each row of this process lies in; collective."""
    sizes = shard.part_ptr.unique_consecutive().diff()
    counts = group.all_gather_counts(len(sizes))
    own = torch.repeat_interleave(torch.arange(len(sizes)), sizes) + sum(counts[: group.rank])
    ghosts = own[:0] if halo is None else halo.values(own)
    return Numbering(torch.cat([own, ghosts]), sum(counts))


def measure_shards(
    shard: Shard, halo: HaloExchange | None, group: ProcessGroup, numbering: Numbering, train: Tensor | None = None
) -> Quality:
    """The :class:`~gpnn.partition.Quality` of the partition that the shards follow; collective.

    Args:
        shard: what this process owns.
        halo: brings the halo rows.
        group: the processes.
        numbering: from :func:`number_parts`; subgraphs without nodes come last.
        train: own rows that are training nodes, `[t]`, or None where nobody counts them.
    """
    parts, k = numbering.parts, shard.totals.num_parts
    src, dst = parts[shard.graph.src], parts[shard.graph.dst]
    crossing = (src != dst).nonzero().flatten()
    own = parts[: shard.num_own]
    senders = (shard.graph.src[crossing] * k + dst[crossing]).unique() % k  # each sender once per subgraph
    columns = [own, src, dst, src[crossing], dst[crossing], senders, own[:0] if train is None else own[train]]
    counts = group.all_reduce(torch.stack([torch.bincount(column, minlength=k) for column in columns]))
    sizes, sent, received, cut_sent, cut_received, halos, labels = counts
    touched = _cut_rows(shard, halo, crossing)
    num_cut_nodes, num_cut_edges = group.all_reduce(torch.tensor([touched, len(crossing)])).tolist()
    ends = sent + received
    smaller = torch.minimum(ends, ends.sum() - ends)
    return Quality(
        num_parts=k,
        edge_cut=num_cut_edges / max(shard.totals.num_edges, 1),
        balance=largest_over_mean(sizes.numpy()),
        edge_balance=largest_over_mean(ends.numpy()),
        num_cut_edges=num_cut_edges,
        num_cut_nodes=num_cut_nodes,
        num_empty=k - numbering.num_filled,
        sizes=tuple(sizes.tolist()),
        edge_ends=tuple(ends.tolist()),
        halo=tuple(halos.tolist()),
        conductance=tuple(((cut_sent + cut_received) / smaller.clamp(min=1)).tolist()),
        train_labels=None if train is None else tuple(labels.tolist()),
    )


def _cut_rows(shard: Shard, halo: HaloExchange | None, crossing: Tensor) -> int:
    """How many own rows touch an edge between subgraphs; what other processes receive is such a row too."""
    ends = torch.cat([shard.graph.src[crossing], shard.graph.dst[crossing]])
    away = ends[:0] if halo is None else halo.send_rows.cpu()
    return len(torch.cat([ends[ends < shard.num_own], away]).unique())


def recall_of_shards(data: Data, plan: ShardedPlan, probabilities: Tensor) -> float:
    """:func:`gpnn.data.recall_at_k` over the nodes of all processes; collective.

    All edges into an item are in its own process, and with them all votes for it.

    Args:
        data: of this process's nodes: `test_mask`, and the gold pairs that each item is similar to, `gold_pairs`.
        plan: of this process.
        probabilities: of its nodes, `[n, C]`.
    """
    shard, group, k = plan.shard, plan.group, data.recall_k
    num_classes = probabilities.shape[1]
    score, category = probabilities.double().max(dim=1)
    votes = torch.stack([score, category.double(), (data.test_mask & (shard.nodes < data.num_lists)).double()], 1)
    if plan.halo is not None:
        votes = torch.cat([votes, plan.halo.values(votes)])
    voting = votes[shard.graph.src, 2] > 0
    vote, category, _ = votes[shard.graph.src[voting]].T
    pair = shard.nodes[shard.graph.dst[voting]] * num_classes + category.long()
    own = [torch.from_numpy(each) for each in best_pairs(pair.numpy(), vote.numpy(), k)]
    pairs, largest = (torch.cat(group.all_gather(each)).numpy() for each in own)
    best_pair, _ = best_pairs(pairs, largest, k)
    gold = data.gold_pairs.col_indices()
    item = torch.repeat_interleave(shard.nodes, data.gold_pairs.crow_indices().diff())
    found = torch.zeros(len(data.gold_class), dtype=torch.uint8)
    found[gold[torch.from_numpy(np.isin(item * num_classes + data.gold_class[gold], best_pair))]] = 1
    return float(group.all_reduce_max(found).double().mean())
