"""A folder of shards: what each process needs of a graph, in a memory-mappable file of its own.

`shards.json` holds the number of nodes, where subgraphs and shards begin in their order, and the digests of the shards'
files and of itself; it is written last, so that a folder that has it is complete.
`shard-00002-of-00004.safetensors` holds of the third of four shards:

==============================  ====================================================================================
`nodes` `[n]`                   the user's node in each row
`ptr` `[n + 1]`, `src` `[e]`    row i receives edges `ptr[i]:ptr[i + 1]`; a sender is an own row, or n + a row of `halo`
`halo` `[h]`                    positions in the node order of the senders that other shards own, rising
`edges` `[e]`                   ids of the edges; `edge_type`, `edge_weight` where the graph has them
`column/NAME` `[n, …]`          features, labels, masks, names; sparse ones as `.ptr`, `.col` and `.value`
==============================  ====================================================================================

Any number of processes reads a folder: as many as there are shards map a file each, others read the ranges of the
files that hold their subgraphs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.distributed.shard import NodeOrder, Shard, ShardBuilder
from gpnn.distributed.shard_index import INDEX, ShardIndex, file_name, index_as_json, is_shard_folder
from gpnn.graph import Graph
from gpnn.storage.atomic import make_folder, staging_folder, sync_folder, write_text
from gpnn.storage.blocks import digest_blocks
from gpnn.storage.seal import seal
from gpnn.storage.tensors import save_tensors


def write_shards(
    folder: Path, graph: Graph, order: NodeOrder, columns: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> ShardIndex:
    """Write a shard for each range of the node order, one after the other; where that fails, nothing is left of them.

    Args:
        folder: where; it is made if need be, and must not hold shards yet.
        graph: the whole graph.
        order: of its nodes, and where each shard begins.
        columns: a row a node each, dense or sparse CSR, `[N, …]`.
        facts: kept as JSON beside the sizes.

    Raises:
        ValueError: when the folder holds shards already.
        OSError: when the disk is full.
    """
    if is_shard_folder(folder):
        raise ValueError(f"The folder of shards must be new. {str(folder)!r} holds one.")
    make_folder(folder.parent)
    builder = ShardBuilder(graph, order)
    names = [file_name(rank, order.num_ranks) for rank in range(order.num_ranks)]
    with staging_folder(folder) as place:
        digests = {}
        for rank, name in enumerate(names):
            shard = builder.build(rank)
            save_tensors(place / name, _pack(shard, columns))
            digests[name] = digest_blocks(place / name)
        ends = _edges_of_parts(graph, order)
        index = ShardIndex(folder, shard.totals, order.part_ptr, ends, order.bounds, dict(facts), digests)
        write_text(place / INDEX, json.dumps(seal(index_as_json(index))) + "\n")
        make_folder(folder)
        for name in names:
            (place / name).replace(folder / name)
        sync_folder(folder)
        (place / INDEX).replace(folder / INDEX)
        sync_folder(folder)
    return index


def _pack(shard: Shard, columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
    counts = torch.bincount(shard.graph.dst, minlength=shard.num_own)
    tensors = {
        "nodes": shard.nodes,
        "ptr": pointers(counts),
        "src": _narrow(shard.graph.src),
        "halo": shard.halo,
        "edges": _narrow(shard.edges),
    }
    if shard.graph.edge_type is not None:
        tensors["edge_type"] = _narrow(shard.graph.edge_type)
    if shard.graph.edge_weight is not None:
        tensors["edge_weight"] = shard.graph.edge_weight
    for name, values in columns.items():
        tensors |= _pack_column(f"column/{name}", values, shard.nodes)
    return tensors


def _pack_column(key: str, values: Tensor, nodes: Tensor) -> dict[str, Tensor]:
    if values.layout == torch.strided:
        return {key: values[nodes]}
    ptr = values.crow_indices().long()
    counts = ptr.diff()[nodes]
    ends = pointers(counts)
    entries = torch.repeat_interleave(ptr[nodes] - ends[:-1], counts) + torch.arange(int(ends[-1]))
    return {
        f"{key}.ptr": ends,
        f"{key}.col": values.col_indices()[entries],
        f"{key}.value": values.values()[entries],
        f"{key}.width": torch.tensor(values.shape[1]),
    }


def _narrow(values: Tensor) -> Tensor:
    """int32 where it fits."""
    return values.int() if not values.numel() or int(values.max()) < 2**31 else values


def _edges_of_parts(graph: Graph, order: NodeOrder) -> Tensor:
    in_degree = graph.in_degree[order.nodes].cumsum(0)
    ends = torch.cat([in_degree.new_zeros(1), in_degree])[order.part_ptr]
    return ends.diff()
