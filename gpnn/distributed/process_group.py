"""ProcessGroup: the processes of one training, of which there may be one, and their collective operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gpnn.storage.atomic import staging_folder

if TYPE_CHECKING:
    from gpnn.distributed.launch import Keepalive

T = TypeVar("T")
TRAFFIC = ("sent_bytes", "synchronous_bytes", "reduced_bytes")


@dataclass
class Traffic:
    """Bytes that this process has sent to others since the last reset.

    Attributes:
        sent: bytes of the state rows and gradients that phases exchanged.
        synchronous: bytes that synchronous propagation of the same depth would have sent in their place.
        reduced: bytes of the parameter gradients passed to the all-reduce.
    """

    sent: int = 0
    synchronous: int = 0
    reduced: int = 0

    def reset(self) -> tuple[int, int, int]:
        """The counts so far; they start again from 0."""
        counts = self.sent, self.synchronous, self.reduced
        self.sent = self.synchronous = self.reduced = 0
        return counts


@dataclass(frozen=True, eq=False)
class ProcessGroup:
    """One process's view of a group of `torch.distributed`; every method but the properties is collective.

    Where `torch.distributed` was not initialised the group has size 1, and every method returns what it was given.

    Attributes:
        handle: torch's group, or None: all processes.
        alone: whether this process is a group of its own, whatever others were started with it.
        traffic: what this process has sent.
        keepalive: shows the others that rank 0 works while they wait for it, or None: torch's own limit holds.
    """

    handle: dist.ProcessGroup | None = None
    alone: bool = False
    traffic: Traffic = field(default_factory=Traffic)
    keepalive: Keepalive | None = None

    @property
    def rank(self) -> int:
        return dist.get_rank(self.handle) if self._is_joined else 0

    @property
    def size(self) -> int:
        return dist.get_world_size(self.handle) if self._is_joined else 1

    @property
    def _is_joined(self) -> bool:
        return not self.alone and dist.is_initialized()

    @property
    def device(self) -> torch.device:
        """Where tensors must be for a collective: the GPU under NCCL, else the CPU."""
        return torch.device("cuda", torch.cuda.current_device()) if self.backend == "nccl" else torch.device("cpu")

    @property
    def backend(self) -> str:
        """What carries the data: "nccl" between GPUs, else "gloo"."""
        return "nccl" if "nccl" in dist.get_backend(self.handle) else "gloo"  # a group may have one for each device

    def all_reduce(self, values: Tensor, operation: Any = dist.ReduceOp.SUM) -> Tensor:
        """The sum of all ranks' `values`, or what another operation makes of them, on their device."""
        if self.size == 1:
            return values.detach()
        here = values.detach().to(self.device, copy=True)
        dist.all_reduce(here, op=operation, group=self.handle)
        return here.to(values.device)

    def all_reduce_max(self, values: Tensor) -> Tensor:
        """The elementwise maximum of all ranks' `values`."""
        return self.all_reduce(values, dist.ReduceOp.MAX)

    def all_gather(self, values: Tensor) -> list[Tensor]:
        """All ranks' `values`, by rank; their first dimensions may differ."""
        if self.size == 1:
            return [values.detach()]
        here = values.detach().to(self.device).contiguous()
        counts = self.all_gather_counts(len(here))
        longest = max(counts)
        padded = here.new_zeros(longest, *here.shape[1:])
        padded[: len(here)] = here
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded, group=self.handle)
        return [part[:count].to(values.device) for part, count in zip(parts, counts)]

    def gather(self, values: Tensor) -> list[Tensor]:
        """In rank 0 all ranks' `values`, by rank; elsewhere nothing. Their first dimensions may differ."""
        if self.size == 1:
            return [values.detach()]
        here = values.detach().to(self.device).contiguous()
        counts = self.all_gather_counts(len(here))
        if self.rank:
            dist.send(here, group_dst=0, group=self.handle)
            return []
        parts = [here]
        for rank, count in enumerate(counts[1:], 1):
            parts.append(here.new_empty(count, *here.shape[1:]))
            dist.recv(parts[-1], group_src=rank, group=self.handle)
        return [part.to(values.device) for part in parts]

    def all_gather_counts(self, count: int) -> list[int]:
        """All ranks' `count`, by rank."""
        if self.size == 1:
            return [count]
        mine = torch.tensor([count], device=self.device)
        counts = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(counts, mine, group=self.handle)
        return [int(each) for each in counts]

    def all_to_all(self, values: Tensor, send: list[int], receive: list[int]) -> Tensor:
        """The rows that all ranks send here; `send` of the rows of `values` go to each rank, `receive` come."""
        if self.size == 1:
            return values.detach()
        here = values.to(self.device).contiguous()
        received = here.new_empty(sum(receive), *here.shape[1:])
        dist.all_to_all_single(received, here, receive, send, group=self.handle)
        return received.to(values.device)

    def start_all_to_all(self, values: Tensor, send: list[int], receive: list[int]) -> tuple[Tensor, dist.Work]:
        """:meth:`all_to_all` that returns at once: the buffer of the received rows, and the work to wait for."""
        buffer = values.new_empty(sum(receive), *values.shape[1:])
        self.traffic.sent += values.numel() * values.element_size()
        work = dist.all_to_all_single(buffer, values, receive, send, group=self.handle, async_op=True)
        return buffer, work

    def broadcast(self, values: Tensor) -> Tensor:
        """Rank 0's `values`; every rank passes a tensor of their shape and type."""
        if self.size == 1:
            return values.detach()
        here = values.detach().to(self.device, copy=True)
        work = dist.broadcast(here, group=self.handle, group_src=0, async_op=True)
        if self.keepalive is not None and self.rank:
            self.keepalive.wait(work)
        work.wait()
        return here.to(values.device)

    def broadcast_text(self, text: str) -> str:
        """Rank 0's text."""
        encoded = text.encode()
        size = int(self.broadcast(torch.tensor(len(encoded))))
        if self.rank:
            encoded = bytes(size)
        return bytes(self.broadcast(torch.frombuffer(bytearray(encoded), dtype=torch.uint8)).numpy()).decode()

    def barrier(self) -> None:
        """Return when every rank is here."""
        if self.size > 1:
            dist.barrier(group=self.handle)

    def any(self, *conditions: bool) -> tuple[bool, ...]:
        """Whether each of `conditions` is true in any process."""
        return tuple(self.all_reduce_max(torch.tensor(conditions, dtype=torch.uint8)).bool().tolist())

    def reset_traffic(self) -> dict[str, int]:
        """Bytes since the last call, of the busiest process: sent, of synchronous propagation, of reduced gradients."""
        counts = self.all_reduce_max(torch.tensor(self.traffic.reset()))
        return dict(zip(TRAFFIC, counts.tolist()))

    def run_on_rank0(
        self,
        make: Callable[[], T],
        encode: Callable[[T], Any] = lambda result: result,
        decode: Callable[[Any], T] = lambda result: result,
    ) -> T:
        """What `make` returns in rank 0; the other ranks wait for it.

        Args:
            make: called in rank 0 only.
            encode: gives its result as JSON holds it.
            decode: makes a result of that, in the other ranks.

        Raises:
            ValueError: in every process, when `make` raised it (or OSError, ImportError) in rank 0.
        """
        if self.rank:
            reply = json.loads(self.broadcast_text(""))
            if "problem" in reply:
                raise RankFailed(reply["problem"])
            return decode(reply["result"])
        try:
            with nullcontext() if self.keepalive is None else self.keepalive.beating():
                result = make()
        except (ValueError, OSError, ImportError, MemoryError) as error:
            self.broadcast_text(json.dumps({"problem": str(error)}))
            raise
        self.broadcast_text(json.dumps({"result": encode(result)}))
        return result

    def run_on_all(self, make: Callable[[], T]) -> T:
        """What `make` returns in this process, if it returns in all.

        Raises:
            ValueError: when `make` raised it (or OSError, ImportError) anywhere; the lowest rank that it was raised in
                raises the same, the others :class:`RankFailed`.
        """
        problem: Exception | None = None
        try:
            made = make()
        except (ValueError, OSError, ImportError) as error:
            problem = error
        mine = self.size if problem is None else self.rank
        first = self.size - int(self.all_reduce_max(torch.tensor(self.size - mine)))
        if first == self.size:
            return made
        if problem is not None and first == self.rank:
            raise problem
        raise RankFailed("Another process failed.")

    @contextmanager
    def staging_folder(self, path: Path) -> Iterator[Path]:
        """A staging folder that rank 0 makes and all processes write into; it is removed when rank 0 leaves the block.

        Raises:
            OSError: naming `path`, when the disk is full or the parent folder cannot be written.
        """
        with nullcontext(path) if self.rank else staging_folder(path) as folder:
            yield path.with_name(self.broadcast_text(folder.name))


class RankFailed(ValueError):
    """Another process failed, and prints the reason itself."""


SINGLE = ProcessGroup(alone=True)  # of a whole graph, which one process trains
