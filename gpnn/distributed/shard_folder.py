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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpnn.csr import pointers, row_entries
from gpnn.distributed.shard import NodeOrder, Shard, ShardBuilder, Totals, split_evenly
from gpnn.graph import Graph
from gpnn.storage.atomic import make_folder, staging_folder, sync_folder, write_text
from gpnn.storage.read import digest_json, read_json, seal, shorten, unseal
from gpnn.storage.tensors import digest_blocks, save_tensors


def write_shards(
    folder: Path, graph: Graph, order: NodeOrder, columns: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> ShardIndex:
    """Write a shard for each range of the node order, one after the other; where that fails, nothing is left of them.

    Args:
        folder: where; it is made if need be, and must not hold anything yet.
        graph: the whole graph.
        order: of its nodes, and where each shard begins.
        columns: a row per node each, dense or sparse CSR, `[N, …]`.
        facts: kept as JSON beside the sizes.

    Raises:
        ValueError: when the folder holds shards already, or other files.
        OSError: when the disk is full.
    """
    if is_shard_folder(folder):
        raise ValueError(f"The folder of shards must be new. {str(folder)!r} holds one.")
    found = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    others = [name for name in found if not name.startswith((".", "shard-"))]  # a kill leaves these
    if others:
        raise ValueError(f"The folder of shards must be new or empty. {str(folder)!r} holds {min(others)}.")
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
    counts, entries = row_entries(values.crow_indices(), nodes)
    return {
        f"{key}.ptr": pointers(counts),
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


FORMAT = 2
WITHOUT_DIGESTS = 1  # the format of folders without digests
INDEX = "shards.json"


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """What `shards.json` holds.

    Attributes:
        folder: where.
        totals: sizes of the whole graph.
        part_ptr: the position where each subgraph begins, `[K + 1]`.
        part_edges: edges into each subgraph, `[K]`.
        bounds: the position where each shard begins, `[S + 1]`.
        facts: what else was written: classes, the dataset's name, ….
        digests: of the blocks of each shard's file, as :func:`gpnn.storage.tensors.digest_blocks` returns them, by the
            file's name; None in folders of format 1.
    """

    folder: Path
    totals: Totals
    part_ptr: Tensor
    part_edges: Tensor
    bounds: Tensor
    facts: dict[str, Any]
    digests: dict[str, list[str]] | None = None

    @cached_property
    def sha256(self) -> str:
        """The digest of the index, and with it of all files."""
        return digest_json(index_as_json(self))

    @property
    def num_shards(self) -> int:
        return self.bounds.numel() - 1

    def bounds_for(self, num_ranks: int) -> Tensor:
        """The position where each of `num_ranks` processes' range begins, `[R + 1]`.

        Raises:
            ValueError: when there are more processes than subgraphs.
        """
        if num_ranks == self.num_shards:
            return self.bounds
        return self.part_ptr[split_evenly(self.part_ptr.diff(), self.part_edges, num_ranks)]


def is_shard_folder(path: str | Path) -> bool:
    """Whether there is a complete folder of shards at `path`."""
    return (Path(path) / INDEX).is_file()


def read_index(folder: str | Path) -> ShardIndex:
    """The index of a folder of shards.

    Raises:
        ValueError: when there is none or it is damaged.
    """
    path = Path(folder) / INDEX
    if not path.is_file():
        raise ValueError(f"A folder of shards must hold {INDEX}. {str(folder)!r} does not.")
    found = read_json(path)
    if found.get("format") not in (FORMAT, WITHOUT_DIGESTS):
        raise ValueError(f"{path} must be of format {FORMAT}. Got {shorten(found.get('format'))}.")
    if found["format"] == FORMAT:
        found = unseal(found, path)
    try:
        lists = {name: torch.tensor(found[name], dtype=torch.int64) for name in ("part_ptr", "part_edges", "bounds")}
        digests = found["digests"] if found["format"] == FORMAT else None
        index = ShardIndex(Path(folder), Totals(**found["totals"]), **lists, facts=found["facts"], digests=digests)
        _check_index(index)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error)[:100]  # it may quote the file
        raise ValueError(f"{path} must be the index of a folder of shards. Got a damaged file ({reason}).") from None
    return index


def _check_index(index: ShardIndex) -> None:
    """Raise TypeError unless subgraphs and shards each make up all nodes, and the edges into subgraphs all edges."""
    totals = index.totals
    if not all(type(number) is int and number >= 0 for number in totals) or type(index.facts) is not dict:
        raise TypeError("sizes must be whole numbers")
    for ptr in (index.part_ptr, index.bounds):
        if ptr.dim() != 1 or len(ptr) < 2 or int(ptr[0]) != 0 or int(ptr[-1]) != totals.num_nodes:
            raise TypeError(f"subgraphs and shards must make up all {totals.num_nodes} nodes")
        if bool((ptr.diff() < 0).any()):
            raise TypeError("subgraphs and shards must follow each other")
    if not bool(torch.isin(index.bounds, index.part_ptr).all()):
        raise TypeError("shards must be made up of whole subgraphs")
    if len(index.part_ptr) != totals.num_parts + 1:
        raise TypeError(f"there must be {totals.num_parts} subgraphs")
    if index.part_edges.shape != (totals.num_parts,) or bool((index.part_edges < 0).any()):
        raise TypeError("every subgraph must have its number of edges")
    if int(index.part_edges.sum()) != totals.num_edges:
        raise TypeError(f"the subgraphs must have {totals.num_edges} edges, num_edges")
    _check_digests(index)


def _check_digests(index: ShardIndex) -> None:
    """Raise TypeError unless each shard's file has digests."""
    if index.digests is None:
        return
    names = {file_name(number, index.num_shards) for number in range(index.num_shards)}
    if set(index.digests) != names or not all(
        isinstance(blocks, list) and all(isinstance(block, str) for block in blocks)
        for blocks in index.digests.values()
    ):
        raise TypeError("every shard must have the digests of its blocks")


def file_name(number: int, num_shards: int) -> str:
    """The name of a shard's file, counted from 0."""
    return f"shard-{number:05d}-of-{num_shards:05d}.safetensors"


def index_as_json(index: ShardIndex) -> dict[str, Any]:
    """What `shards.json` holds of an index, its seal aside."""
    digests = {} if index.digests is None else {"digests": index.digests}
    return {
        "format": WITHOUT_DIGESTS if index.digests is None else FORMAT,
        "totals": index.totals._asdict(),
        "bounds": index.bounds.tolist(),
        "part_ptr": index.part_ptr.tolist(),
        "part_edges": index.part_edges.tolist(),
        "facts": index.facts,
        **digests,
    }
