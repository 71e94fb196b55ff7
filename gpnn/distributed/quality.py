"""What a partition costs, and recall at k, counted by processes of which each knows its own subgraphs only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.data.diel import best_pairs
from gpnn.distributed.halo_exchange import HaloExchange
from gpnn.distributed.process_group import ProcessGroup
from gpnn.distributed.shard import Shard
from gpnn.partition.partition import Quality, largest_over_mean

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.distributed.plan import ShardedPlan


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
