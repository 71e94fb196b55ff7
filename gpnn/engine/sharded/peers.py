"""Peers: the processes that train together, and what they send each other."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

TRAFFIC = ("sent_bytes", "synchronous_bytes", "reduced_bytes")


@dataclass
class Traffic:
    """Bytes that this process has sent to others since the last look.

    Attributes:
        sent: bytes of the state rows and gradients that phases exchanged.
        synchronous: bytes that synchronous propagation of the same depth would have sent in their place.
        reduced: bytes of the parameter gradients handed to the all-reduce.
    """

    sent: int = 0
    synchronous: int = 0
    reduced: int = 0

    def take(self) -> Traffic:
        """The counts so far; they start anew."""
        taken = Traffic(self.sent, self.synchronous, self.reduced)
        self.sent = self.synchronous = self.reduced = 0
        return taken


@dataclass(frozen=True, eq=False)
class Peers:
    """One process's view of a group of `torch.distributed`; every method but the properties is collective.

    Where `torch.distributed` was not initialised the group has size 1, and every method returns what it was given.

    Attributes:
        group: the group, or None: all processes.
        traffic: what this process has sent.
    """

    group: dist.ProcessGroup | None = None
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def rank(self) -> int:
        return dist.get_rank(self.group) if dist.is_initialized() else 0

    @property
    def size(self) -> int:
        return dist.get_world_size(self.group) if dist.is_initialized() else 1

    @property
    def device(self) -> torch.device:
        """Where tensors must be to travel: the GPU under NCCL, else the CPU."""
        return torch.device("cuda", torch.cuda.current_device()) if self.backend == "nccl" else torch.device("cpu")

    @property
    def backend(self) -> str:
        """What carries the data: "nccl" between GPUs, else "gloo"."""
        return "nccl" if "nccl" in dist.get_backend(self.group) else "gloo"  # a group may have one for each device

    def total(self, values: Tensor) -> Tensor:
        """The sum of everyone's `values`, where they were."""
        if self.size == 1:
            return values.detach()
        here = values.detach().to(self.device, copy=True)
        dist.all_reduce(here, group=self.group)
        return here.to(values.device)

    def largest(self, values: Tensor) -> Tensor:
        """The largest of everyone's `values`, entry by entry."""
        if self.size == 1:
            return values.detach()
        here = values.detach().to(self.device, copy=True)
        dist.all_reduce(here, op=dist.ReduceOp.MAX, group=self.group)
        return here.to(values.device)

    def gather(self, values: Tensor) -> list[Tensor]:
        """Everyone's `values`, by rank; their first dimensions may differ."""
        if self.size == 1:
            return [values.detach()]
        here = values.detach().to(self.device).contiguous()
        counts = self.all_counts(len(here))
        longest = max(counts)
        padded = here.new_zeros(longest, *here.shape[1:])
        padded[: len(here)] = here
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded, group=self.group)
        return [part[:count].to(values.device) for part, count in zip(parts, counts)]

    def collect(self, values: Tensor) -> list[Tensor]:
        """In rank 0 everyone's `values`, by rank; elsewhere nothing. Their first dimensions may differ."""
        if self.size == 1:
            return [values.detach()]
        here = values.detach().to(self.device).contiguous()
        counts = self.all_counts(len(here))
        if self.rank:
            dist.send(here, group_dst=0, group=self.group)
            return []
        parts = [here]
        for rank, count in enumerate(counts[1:], 1):
            parts.append(here.new_empty(count, *here.shape[1:]))
            dist.recv(parts[-1], group_src=rank, group=self.group)
        return [part.to(values.device) for part in parts]

    def all_counts(self, count: int) -> list[int]:
        """Everyone's `count`, by rank."""
        if self.size == 1:
            return [count]
        mine = torch.tensor([count], device=self.device)
        counts = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(counts, mine, group=self.group)
        return [int(each) for each in counts]

    def swap(self, values: Tensor, send: list[int], receive: list[int]) -> Tensor:
        """The first dimension of `values` dealt out by `send` counts; what everyone deals to this process."""
        if self.size == 1:
            return values.detach()
        here = values.to(self.device).contiguous()
        dealt = here.new_empty(sum(receive), *here.shape[1:])
        dist.all_to_all_single(dealt, here, receive, send, group=self.group)
        return dealt.to(values.device)

    def start_swap(self, values: Tensor, send: list[int], receive: list[int]) -> tuple[Tensor, dist.Work]:
        """:meth:`swap` that returns at once: the room for what comes, and the work to wait for."""
        room = values.new_empty(sum(receive), *values.shape[1:])
        self.traffic.sent += values.numel() * values.element_size()
        work = dist.all_to_all_single(room, values, receive, send, group=self.group, async_op=True)
        return room, work

    def from_first(self, values: Tensor) -> Tensor:
        """Rank 0's `values`; everyone gives a tensor of their form."""
        if self.size == 1:
            return values.detach()
        here = values.detach().to(self.device, copy=True)
        dist.broadcast(here, group=self.group, group_src=0)
        return here.to(values.device)

    def wait_for_all(self) -> None:
        """Return when everyone is here."""
        if self.size > 1:
            dist.barrier(group=self.group)

    def take_traffic(self) -> dict[str, int]:
        """Bytes since the last call, of the busiest process: sent, of synchronous propagation, of reduced gradients."""
        taken = self.traffic.take()
        counts = self.largest(torch.tensor([taken.sent, taken.synchronous, taken.reduced]))
        return dict(zip(TRAFFIC, counts.tolist()))

    def any(self, *wishes: bool) -> tuple[bool, ...]:
        """Whether each of `wishes` is true in any process."""
        return tuple(self.largest(torch.tensor(wishes, dtype=torch.uint8)).bool().tolist())


SINGLE = Peers()  # of a process that was not started by torchrun
