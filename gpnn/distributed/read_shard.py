"""Reading shards: a process's rows, from one file or from ranges of several, compared with their digests."""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.distributed.shard import Shard, localize, parts_between
from gpnn.distributed.shard_file import ShardFile, require
from gpnn.distributed.shard_index import ShardIndex, file_name
from gpnn.storage.blocks import BlockCheck


def read_shard(index: ShardIndex, rank: int, num_ranks: int) -> tuple[Shard, dict[str, Tensor]]:
    """The shard of one of `num_ranks` processes and its rows of the columns; other rows are not read.

    The blocks that hold these rows are compared with their digests beside the reading; folders of format 1 have none.

    Raises:
        ValueError: when there are more processes than subgraphs, or a file is missing, damaged or was changed.
    """
    from safetensors import SafetensorError

    bounds = index.bounds_for(num_ranks)
    first, last = (int(bound) for bound in bounds[rank : rank + 2])
    try:
        with BlockCheck() as check:
            return _read(index, bounds, first, last, check)
    except (SafetensorError, LookupError, RuntimeError, TypeError, AttributeError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ValueError(f"{index.folder} must hold sound shards. Got a damaged file ({reason}).") from None


def _read(
    index: ShardIndex, bounds: Tensor, first: int, last: int, check: BlockCheck
) -> tuple[Shard, dict[str, Tensor]]:
    with ExitStack() as stack:
        files = [ShardFile(stack, index, number, first, last, check) for number in _overlapping(index, first, last)]
        require(bool(files), "no shard holds these rows")
        counts = _join([file.counts for file in files])
        _check_edges_of_parts(index, counts, first, last)
        src = _join([file.senders() for file in files])
        extra = [_join_some([file.edge_values(name) for file in files]) for name in ("edge_type", "edge_weight")]
        nodes = _distinct(_join([file.nodes() for file in files]), index.totals.num_nodes)
        edges = _join([file.edge_ids() for file in files])
        columns = {name: _join([file.column(name) for file in files]) for name in files[0].column_names()}
    edge_type = None if extra[0] is None else extra[0].long()
    graph, halo = localize(src, counts, first, edge_type, extra[1])
    if len(files) == 1 and files[0].is_whole:
        require(torch.equal(halo, files[0].halo), "halo must hold the senders of other shards, each once")
    part_ptr = parts_between(index.part_ptr, first, last)
    return Shard(graph, last - first, nodes, halo, bounds, part_ptr, edges, index.totals), columns


def read_sizes(index: ShardIndex) -> list[dict[str, int]]:
    """Nodes, edges, halo rows and bytes of each shard of a folder."""
    from safetensors import safe_open

    sizes = []
    for number in range(index.num_shards):
        path = index.folder / file_name(number, index.num_shards)
        with safe_open(path, framework="pt") as file:
            nodes, edges, halo = (file.get_slice(name).get_shape()[0] for name in ("nodes", "src", "halo"))
        sizes.append({"nodes": nodes, "edges": edges, "halo rows": halo, "bytes": path.stat().st_size})
    return sizes


def _check_edges_of_parts(index: ShardIndex, counts: Tensor, first: int, last: int) -> None:
    """Compare the edges into each of these subgraphs with those of the index."""
    (within,) = ((index.part_ptr >= first) & (index.part_ptr <= last)).nonzero(as_tuple=True)
    ends = pointers(counts)[index.part_ptr[within] - first]
    expected = index.part_edges[int(within[0]) : int(within[-1])]
    require(torch.equal(ends.diff(), expected), "every subgraph must have as many edges as shards.json says")


def _distinct(nodes: Tensor, num_nodes: int) -> Tensor:
    seen = torch.zeros(num_nodes, dtype=torch.bool)
    seen[nodes] = True
    require(int(seen.sum()) == len(nodes), "nodes must be distinct")
    return nodes


def _overlapping(index: ShardIndex, first: int, last: int) -> list[int]:
    begin, end = index.bounds[:-1], index.bounds[1:]
    return ((begin < last) & (end > first)).nonzero().flatten().tolist()


def _join(parts: list[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    same = len({(part.dtype, part.layout, part.shape[1:]) for part in parts}) == 1
    require(same, "shards must agree on the type of their tensors")
    if parts[0].layout == torch.strided:
        return torch.cat(parts)
    counts = torch.cat([part.crow_indices().diff() for part in parts])
    ptr = pointers(counts)
    col, value = torch.cat([part.col_indices() for part in parts]), torch.cat([part.values() for part in parts])
    return csr_tensor(ptr.numpy(), col.numpy(), value.numpy(), (len(counts), parts[0].shape[1]))


def _join_some(parts: list[Tensor | None]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return _join(there) if there else None
