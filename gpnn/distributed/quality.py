"""What a partition costs, counted by processes of which each knows its own subgraphs only."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.distributed.halo_exchange import HaloExchange
from gpnn.distributed.process_group import ProcessGroup
from gpnn.distributed.shard import Shard
from gpnn.partition.quality import Quality, largest_over_mean


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
