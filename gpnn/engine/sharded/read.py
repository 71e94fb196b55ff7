"""Reading shards: a process's rows, from one file or from stretches of several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.engine.sharded.folder import ShardIndex, file_name
from gpnn.engine.sharded.shard import Shard, localize, parts_between


def read_shard(index: ShardIndex, rank: int, num_ranks: int) -> tuple[Shard, dict[str, Tensor]]:
    """The shard of one of `num_ranks` processes and its rows of the columns; other rows are not read.

    Raises:
        ValueError: when there are more processes than subgraphs, or a file is missing or damaged.
    """
    from safetensors import SafetensorError

    bounds = index.bounds_for(num_ranks)
    first, last = (int(bound) for bound in bounds[rank : rank + 2])
    try:
        return _read(index, bounds, first, last)
    except (SafetensorError, LookupError, RuntimeError, TypeError, AttributeError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ValueError(f"{index.folder} must hold sound shards. Got a damaged file ({reason}).") from None


def _read(index: ShardIndex, bounds: Tensor, first: int, last: int) -> tuple[Shard, dict[str, Tensor]]:
    with ExitStack() as stack:
        pieces = [_Piece(stack, index, number, first, last) for number in _overlapping(index, first, last)]
        if not pieces:
            raise LookupError("no shard holds these rows")
        counts = _join([piece.rows("ptr", 1).diff() for piece in pieces])
        src = _join([piece.senders() for piece in pieces])
        extra = [_join_some([piece.edge_values(name) for piece in pieces]) for name in ("edge_type", "edge_weight")]
        nodes = _join([piece.rows("nodes") for piece in pieces]).long()
        edges = _join([piece.edge_values("edges") for piece in pieces]).long()
        columns = dict(_columns(pieces))
    edge_type = None if extra[0] is None else extra[0].long()
    graph, halo = localize(src, counts, first, edge_type, extra[1])
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


class _Piece:
    """The rows of one shard's file that lie between two positions."""

    def __init__(self, stack: ExitStack, index: ShardIndex, number: int, first: int, last: int) -> None:
        from safetensors import SafetensorError, safe_open

        path = index.folder / file_name(number, index.num_shards)
        if not path.is_file():
            raise ValueError(f"A folder of {index.num_shards} shards must hold {path.name}. It does not.")
        try:
            self.file = stack.enter_context(safe_open(path, framework="pt"))
        except SafetensorError as error:
            raise ValueError(f"{path} must be a shard. Got a damaged file ({str(error)[:100]}).") from None
        self.names = set(self.file.keys())
        begin, end = (int(bound) for bound in index.bounds[number : number + 2])
        self.begin, self.num_rows, self.num_nodes = begin, end - begin, index.totals.num_nodes
        self.start, self.stop = max(first, begin) - begin, min(last, end) - begin

    def rows(self, name: str, more: int = 0) -> Tensor:
        """The rows of a tensor with a row a node (and `more` behind them)."""
        return self._slice(name, self.start, self.stop + more)

    def edge_values(self, name: str) -> Any:
        """The values of the edges into these rows, or None."""
        if name not in self.names:
            return None
        ends = self.rows("ptr", 1)
        return self._slice(name, int(ends[0]), int(ends[-1]))

    def senders(self) -> Tensor:
        """The positions of the senders of the edges into these rows."""
        src, halo = self.edge_values("src").long(), self.file.get_tensor("halo").long()
        _check_range("senders", src, self.num_rows + len(halo))
        _check_range("rows of other shards", halo, self.num_nodes)
        return torch.cat([torch.arange(self.begin, self.begin + self.num_rows), halo])[src]

    def column(self, name: str) -> Tensor:
        """These rows of a column."""
        key = f"column/{name}"
        if f"{key}.ptr" not in self.names:
            return self.rows(key)
        ends = self.rows(f"{key}.ptr", 1)
        col, value = (self._slice(f"{key}.{part}", int(ends[0]), int(ends[-1])) for part in ("col", "value"))
        width = int(self.file.get_tensor(f"{key}.width"))
        _check_range(f"columns of {name}", col, width)  # an index out of range would be read as memory
        if bool((ends.diff() < 0).any()) or len(col) != len(value):
            raise TypeError(f"rows of {name} must follow each other")
        return csr_tensor((ends - ends[0]).numpy(), col.numpy(), value.numpy(), (self.stop - self.start, width))

    def _slice(self, name: str, start: int, stop: int) -> Tensor:
        part = self.file.get_slice(name)
        if not 0 <= start <= stop <= part.get_shape()[0]:
            raise LookupError(f"{name} has no rows {start} to {stop}")
        whole = start == 0 and stop == part.get_shape()[0]
        return self.file.get_tensor(name) if whole else part[start:stop]


def _check_range(name: str, values: Tensor, size: int) -> None:
    if values.numel() and not 0 <= int(values.min()) <= int(values.max()) < size:
        raise LookupError(f"{name} must lie from 0 to {size - 1}")


def _overlapping(index: ShardIndex, first: int, last: int) -> list[int]:
    begin, end = index.bounds[:-1], index.bounds[1:]
    return ((begin < last) & (end > first)).nonzero().flatten().tolist()


def _columns(pieces: list[_Piece]) -> Iterator[tuple[str, Tensor]]:
    keys = {name.removeprefix("column/").split(".")[0] for name in pieces[0].names if name.startswith("column/")}
    for name in sorted(keys):
        yield name, _join([piece.column(name) for piece in pieces])


def _join(parts: list[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    if parts[0].layout == torch.strided:
        return torch.cat(parts)
    counts = torch.cat([part.crow_indices().diff() for part in parts])
    ptr = pointers(counts)
    col, value = torch.cat([part.col_indices() for part in parts]), torch.cat([part.values() for part in parts])
    return csr_tensor(ptr.numpy(), col.numpy(), value.numpy(), (len(counts), parts[0].shape[1]))


def _join_some(parts: list[Tensor | None]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return _join(there) if there else None
