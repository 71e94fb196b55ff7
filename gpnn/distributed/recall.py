"""Recall at k of lists and items that are divided among processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.data.lists import best_pairs
from gpnn.distributed.plan import ShardedPlan

if TYPE_CHECKING:
    from torch_geometric.data import Data


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
