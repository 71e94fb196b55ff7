"""Processes that torchrun started: how they find each other, and how one learns that another is gone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from gpnn.engine.sharded import Peers
from gpnn.storage.atomic import workplace
from gpnn.train.device import choose_device
from gpnn.train.rendezvous import meet

T = TypeVar("T")
MEETING = timedelta(minutes=10)  # machines may start minutes apart
PATIENCE = timedelta(days=7)  # for what only the first process does while the others wait


@dataclass(frozen=True)
class Launch:
    """What torchrun told this process.

    Attributes:
        rank: its number among all processes.
        size: how many there are.
        local_rank: its number on this machine.
        local_size: how many run on this machine.
        restarts: how often the job was started again.
        max_restarts: how often it may be.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0
    max_restarts: int = 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Launch | None:
        """What torchrun set; None in a process that it did not start.

        >>> Launch.from_environment({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "LOCAL_RANK": "1"}).rank
        1
        """
        if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= set(environment):
            return None
        names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]
        names += ["TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"]
        return cls(*(int(environment.get(name, default)) for name, default in zip(names, "010100")))


def choose_local_device(name: str, launch: Launch) -> torch.device:
    """The device of this process: a GPU of its own where there are enough of them, else the CPU.

    Raises:
        ValueError: when GPUs are asked for and there are fewer than processes.
    """
    enough = torch.cuda.device_count() >= launch.local_size
    if name == "cuda" and not enough:
        found = torch.cuda.device_count()
        raise ValueError(f"Each of the {launch.local_size} processes must have its own GPU. This machine has {found}.")
    if name in ("auto", "cuda"):
        return torch.device("cuda", launch.local_rank) if torch.cuda.is_available() and enough else torch.device("cpu")
    return choose_device(name)


def join(launch: Launch, device: torch.device, timeout: float) -> Peers:
    """Meet the other processes; collective.

    Args:
        launch: who this process is. A single process that nobody started needs no address.
        device: where it computes; states travel by NCCL between GPUs, by gloo between CPUs.
        timeout: seconds after which a process that does not answer counts as lost.
    """
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    limit = timedelta(seconds=timeout)
    store = dist.HashStore() if launch.size == 1 else meet(launch.rank, launch.size, max(limit, MEETING))
    dist.init_process_group(backend, store=store, rank=launch.rank, world_size=launch.size, timeout=limit)
    return Peers()


class Leader:
    """The first process, which does what only one can do while the others wait as long as it takes.

    Args:
        peers: the processes.
    """

    def __init__(self, peers: Peers) -> None:
        self.peers = Peers(dist.new_group(timeout=PATIENCE, backend="gloo"))
        assert self.peers.rank == peers.rank

    def tell(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `make` gives in the first process, which JSON must hold; collective.

        Raises:
            ValueError: in every process, when `make` raised it (or OSError, ImportError) in the first.
        """
        problem: Exception | None = None
        answer: dict[str, Any] = {}
        if self.peers.rank == 0:
            try:
                answer = {"answer": make()}
            except (ValueError, OSError, ImportError, MemoryError) as error:
                problem, answer = error, {"problem": str(error)}
        told = self._share(answer)
        if problem is not None:
            raise problem
        if "problem" in told:
            raise LeaderFailed(told["problem"])
        return told["answer"]

    def _share(self, answer: dict[str, Any]) -> dict[str, Any]:
        return json.loads(broadcast_text(self.peers, json.dumps(answer)))


class LeaderFailed(ValueError):
    """Another process could not do its part, and says why itself."""


def broadcast_text(peers: Peers, text: str) -> str:
    """The text of rank 0; collective."""
    encoded = text.encode()
    size = int(peers.from_first(torch.tensor(len(encoded))))
    if peers.rank:
        encoded = bytes(size)
    return bytes(peers.from_first(torch.frombuffer(bytearray(encoded), dtype=torch.uint8)).numpy()).decode()


@contextmanager
def shared_workplace(path: Path, peers: Peers) -> Iterator[Path]:
    """A workplace that rank 0 makes and all processes write into; it is gone when rank 0 leaves it; collective.

    Raises:
        OSError: naming `path`, when the disk is full or the parent folder cannot be written.
    """
    with nullcontext(path) if peers.rank else workplace(path) as folder:
        yield path.with_name(broadcast_text(peers, folder.name))


def together(peers: Peers, make: Callable[[], T]) -> T:
    """What `make` gives in each process, if it gives it in all; collective.

    Raises:
        ValueError: when `make` raised it (or OSError, ImportError) anywhere; the first process that it was raised in
            raises the same, the others :class:`LeaderFailed`.
    """
    problem: Exception | None = None
    try:
        made = make()
    except (ValueError, OSError, ImportError) as error:
        problem = error
    mine = peers.size if problem is None else peers.rank
    first = peers.size - int(peers.largest(torch.tensor(peers.size - mine)))
    if first == peers.size:
        return made
    if problem is not None and first == peers.rank:
        raise problem
    raise LeaderFailed("Another process failed.")


def is_lost_peer(error: BaseException) -> bool:
    """Whether an error means that another process ended or does not answer.

    >>> is_lost_peer(RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4711"))
    True
    """
    if isinstance(error, dist.DistError):
        return True
    signs = ("gloo/", "Connection closed by peer", "Connection reset by peer", "Timed out waiting", "Broken pipe")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)
