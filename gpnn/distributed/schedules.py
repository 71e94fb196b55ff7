"""Schedules that a process can make of its own shard, without seeing the whole graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gpnn.check import check_choice, check_count
from gpnn.csr import pointers
from gpnn.distributed.halo_exchange import HaloExchange
from gpnn.distributed.shard import Shard
from gpnn.schedule import Phase, Schedule


def shard_schedule(
    name: str, shard: Shard, halo: HaloExchange | None, *, rounds: int, options: Mapping[str, Any] | None = None
) -> Schedule:
    """This process's share of a schedule: the edges into own rows, the own rows that update.

    Args:
        name: a name of `SHARD_SCHEDULES`.
        shard: what this process owns.
        halo: how the rows of `shard.halo` come here; None where no process has any.
        rounds: number of rounds.
        options: the schedule's own, such as `intra` and `cut`.

    Raises:
        ValueError: when no process could make the schedule alone, or an option is unknown.
    """
    if name not in SHARD_SCHEDULES:
        known = ", ".join(SHARD_SCHEDULES)
        raise ValueError(f"Several processes can run the schedules {known} from a folder of shards. Got {name!r}.")
    check_count("rounds", rounds, at_least=1)
    try:
        phases = SHARD_SCHEDULES[name](shard, halo, **(options or {}))
    except TypeError:
        raise ValueError(f"The schedule {name!r} does not take these options. Got {dict(options or {})}.") from None
    return Schedule(shard.graph, (phases,) * rounds)


def restrict(schedule: Schedule, shard: Shard) -> Schedule:
    """This process's share of any schedule of the whole graph: the edges into own rows, the own rows that update.

    Args:
        schedule: of the whole graph, virtual nodes included.
        shard: cut out of the schedule's graph.
    """
    number = torch.full((schedule.graph.num_edges,), -1, dtype=torch.int64)
    number[shard.edges] = torch.arange(shard.edges.numel())
    row = torch.full((schedule.graph.num_nodes,), -1, dtype=torch.int64)
    row[shard.nodes] = torch.arange(shard.num_own)

    def share(phase: Phase) -> Phase:
        edges, nodes = number[phase.edges], row[phase.nodes]
        return Phase(edges[edges >= 0], nodes[nodes >= 0], phase.repeat, phase.kind, closing=phase.closing)

    shares = {id(phase): share(phase) for phase in schedule.distinct_phases()}
    return Schedule(shard.graph, tuple(tuple(shares[id(phase)] for phase in phases) for phases in schedule.rounds))


def _synchronous(shard: Shard, halo: HaloExchange | None) -> tuple[Phase, ...]:
    del halo
    return (Phase(torch.arange(shard.graph.num_edges), torch.arange(shard.num_own), kind="all"),)


def _partitioned(
    shard: Shard,
    halo: HaloExchange | None,
    intra: int = 1,
    cut: int = 1,
    update: str = "members",
    virtual: str | None = None,
) -> tuple[Phase, ...]:
    check_count("intra", intra, at_least=0)
    check_count("cut", cut, at_least=0)
    check_choice("update", update, ("members", "receivers"))
    if virtual is not None:
        raise ValueError(f"Several processes have no virtual nodes: `virtual` must be None. Got {virtual!r}.")
    if not (intra or cut):
        raise ValueError("One of `intra` and `cut` must be at least 1. Got 0 for both.")
    src, dst, labels = shard.graph.src, shard.graph.dst, shard.labels
    part = torch.cat([labels, labels.new_full((len(shard.halo),), -1)])  # a sender elsewhere is in another subgraph
    crossing = part[src] != part[dst]
    phases = []
    if intra:
        phases.append(_inside(shard, (~crossing).nonzero().flatten(), intra, update))
    if cut:
        phases.append(_cut(shard, halo, crossing.nonzero().flatten(), cut, update))
    return tuple(phases)


def _inside(shard: Shard, edges: Tensor, repeat: int, update: str) -> Phase:
    """The edges that stay in their subgraph; one block a subgraph."""
    nodes, labels = torch.arange(shard.num_own), shard.labels
    if update == "receivers":
        nodes = shard.graph.dst[edges].unique()
    num_parts = shard.part_ptr.numel() - 1
    edge_ptr = pointers(torch.bincount(labels[shard.graph.dst[edges]], minlength=num_parts))
    return Phase(edges, nodes, repeat, "inside", edge_ptr, pointers(torch.bincount(labels[nodes], minlength=num_parts)))


def _cut(shard: Shard, halo: HaloExchange | None, edges: Tensor, repeat: int, update: str) -> Phase:
    """The edges between subgraphs; of the senders those that are own, to whomever they send, update too."""
    ends = [shard.graph.dst[edges]]
    if update == "members":
        senders = shard.graph.src[edges]
        ends += [senders[senders < shard.num_own], *([] if halo is None else [halo.send_rows.cpu()])]
    return Phase(edges, torch.cat(ends).unique(), repeat, "cut", closing=True)


SHARD_SCHEDULES: dict[str, Callable[..., tuple[Phase, ...]]] = {
    "partitioned": _partitioned,
    "synchronous": _synchronous,
}
