"""A folder of shards, read: a process's rows, from one file or from ranges of several, compared with their digests."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.data.features import csr_tensor
from gpnn.distributed.shard import Shard, localize, parts_between
from gpnn.distributed.shard_folder import ShardIndex, file_name
from gpnn.storage.read import check_regular
from gpnn.storage.tensors import BlockCheck, num_blocks, tensor_places


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
        check_regular(path)
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


class ShardFile:
    """The rows of one shard's file from position `first` to `last` of the node order.

    Methods raise LookupError where the file's tensors do not fit each other or the index.

    Args:
        stack: closes the file.
        index: of the folder.
        number: of the shard.
        first: the first position wanted.
        last: one past the last.
        check: compares what is read with the index's digests.
    """

    def __init__(
        self, stack: ExitStack, index: ShardIndex, number: int, first: int, last: int, check: BlockCheck
    ) -> None:
        from safetensors import SafetensorError, safe_open

        self.path, self.totals, self.check = index.folder / file_name(number, index.num_shards), index.totals, check
        if not self.path.is_file():
            raise ValueError(f"A folder of {index.num_shards} shards must hold {self.path.name}. It does not.")
        self.digests = None if index.digests is None else index.digests[self.path.name]
        if self.digests is not None and len(self.digests) != num_blocks(self.path.stat().st_size):
            raise ValueError(f"{self.path} must be as it was written. Got {self.path.stat().st_size} bytes.")
        try:
            self.file = stack.enter_context(safe_open(self.path, framework="pt"))
        except SafetensorError as error:
            raise ValueError(f"{self.path} must be a shard. Got a damaged file ({str(error)[:100]}).") from None
        self.places = tensor_places(self.path)
        begin, end = (int(bound) for bound in index.bounds[number : number + 2])
        self.begin, self.num_rows = begin, end - begin
        self.start, self.stop = max(first, begin) - begin, min(last, end) - begin
        header = min((begin for begin, _ in self.places.values()), default=0)
        self._compare(0, self.path.stat().st_size if self.is_whole else header)  # the digests begin before the reading
        self._check_shapes()

    @property
    def is_whole(self) -> bool:
        return (self.start, self.stop) == (0, self.num_rows)

    @cached_property
    def counts(self) -> Tensor:
        """Edges into each row, `[n]`."""
        counts = self.ends.diff()
        require(bool((counts >= 0).all()), "ptr must rise")
        require(self.start > 0 or int(self.ends[0]) == 0, "ptr must begin at 0")
        num_edges = self._shape("src")[0]
        require(self.stop < self.num_rows or int(self.ends[-1]) == num_edges, f"ptr must end at {num_edges}")
        return counts

    @cached_property
    def ends(self) -> Tensor:
        """Where the edges into each row begin, `[n + 1]`."""
        return self._slice("ptr", self.start, self.stop + 1)

    @cached_property
    def halo(self) -> Tensor:
        """The positions of all senders that other shards own, `[h]`."""
        halo = self._slice("halo", 0, self._shape("halo")[0]).long()
        check_range("halo", halo, self.totals.num_nodes)
        require(bool((halo.diff() > 0).all()), "halo must rise")
        inside = (halo >= self.begin) & (halo < self.begin + self.num_rows)
        require(not bool(inside.any()), "halo must hold no row of this shard")
        return halo

    def nodes(self) -> Tensor:
        """The user's node in each row, `[n]`."""
        nodes = self._slice("nodes", self.start, self.stop).long()
        return check_range("nodes", nodes, self.totals.num_nodes)

    def edge_ids(self) -> Tensor:
        """The id of each edge into these rows, `[e]`."""
        return check_range("edges", self._edges("edges").long(), self.totals.num_edges)

    def edge_values(self, name: str) -> Tensor | None:
        """The type or weight of each edge into these rows, `[e]`, or None where the graph has none."""
        if name not in self.places:
            return None
        values = self._edges(name)
        return check_range(name, values, self.totals.num_edge_types) if name == "edge_type" else values

    def senders(self) -> Tensor:
        """The positions of the senders of the edges into these rows, `[e]`."""
        src = check_range("src", self._edges("src").long(), self.num_rows + len(self.halo))
        return torch.cat([torch.arange(self.begin, self.begin + self.num_rows), self.halo])[src]

    def column_names(self) -> list[str]:
        """The names of the columns."""
        return sorted(
            {name.removeprefix("column/").split(".")[0] for name in self.places if name.startswith("column/")}
        )

    def column(self, name: str) -> Tensor:
        """These rows of a column."""
        key = f"column/{name}"
        if f"{key}.ptr" not in self.places:
            return self._slice(key, self.start, self.stop)
        ends = self._slice(f"{key}.ptr", self.start, self.stop + 1)
        col, value = (self._slice(f"{key}.{part}", int(ends[0]), int(ends[-1])) for part in ("col", "value"))
        self._compare(*self.places[f"{key}.width"])
        width = int(self.file.get_tensor(f"{key}.width"))
        check_range(f"columns of {name}", col, width)  # an index out of range would be read as memory
        require(not bool((ends.diff() < 0).any()), f"rows of {name} must follow each other")
        return csr_tensor((ends - ends[0]).numpy(), col.numpy(), value.numpy(), (self.stop - self.start, width))

    def _edges(self, name: str) -> Tensor:
        return self._slice(name, int(self.ends[0]), int(self.ends[-1]))

    def _check_shapes(self) -> None:
        """Every tensor has a row per node, per edge or per entry, as its name implies."""
        rows, edges = self.num_rows, self._shape("src")[0]
        sizes = {"nodes": [rows], "ptr": [rows + 1], "src": [edges], "edges": [edges]}
        sizes |= {name: [edges] for name in ("edge_type", "edge_weight") if name in self.places}
        for name, size in sizes.items():
            require(self._shape(name) == size, f"{name} must have shape {size}")
        for name in self.column_names():
            key = f"column/{name}"
            if f"{key}.ptr" in self.places:
                require(self._shape(f"{key}.ptr") == [rows + 1], f"{name} must have a row per node")
                require(self._shape(f"{key}.col") == self._shape(f"{key}.value"), f"{name} must have a value per entry")
            else:
                require(self._shape(key)[:1] == [rows], f"{name} must have a row per node")

    def _shape(self, name: str) -> list[int]:
        return list(self.file.get_slice(name).get_shape())

    def _slice(self, name: str, start: int, stop: int) -> Tensor:
        num_rows = self._shape(name)[0]
        require(0 <= start <= stop <= num_rows, f"{name} has no rows {start} to {stop}")
        begin, end = self.places[name]
        row = (end - begin) // max(1, num_rows)
        self._compare(begin + start * row, begin + stop * row)
        whole = (start, stop) == (0, num_rows)
        return self.file.get_tensor(name) if whole else self.file.get_slice(name)[start:stop]

    def _compare(self, begin: int, end: int) -> None:
        if self.digests is not None:
            self.check.start(self.path, self.digests, begin, end)


def require(condition: bool, reason: str) -> None:
    """Raise LookupError for what does not hold of a shard's file."""
    if not condition:
        raise LookupError(reason)


def check_range(name: str, values: Tensor, size: int) -> Tensor:
    """The values, found from 0 to `size` − 1."""
    if values.numel():
        low, high = (int(bound) for bound in torch.aminmax(values))
        require(0 <= low <= high < size, f"{name} must lie from 0 to {size - 1}")
    return values
