"""Launch: the processes that torchrun started, how they form a group, and how one detects that another ended."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gpnn.distributed.process_group import SINGLE, ProcessGroup
from gpnn.kernels.execution import choose_device

MEETING = timedelta(minutes=10)  # machines may start minutes apart
PATIENCE = timedelta(days=7)  # for what only rank 0 does while the others wait, as long as it is alive


@dataclass(frozen=True)
class Launch:
    """What torchrun set for this process.

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


@dataclass(frozen=True, eq=False)
class Processes:
    """The processes of one training, before they know on which device they compute.

    Attributes:
        launch: which of them this one is.
        group: all of them; its collectives wait as long as rank 0 works at what it alone does.
        timeout: seconds after which a process that does not answer counts as lost.
    """

    launch: Launch = Launch()
    group: ProcessGroup = SINGLE
    timeout: float = 600.0

    def training_group(self, device: torch.device) -> ProcessGroup:
        """The group that trains; states are sent by NCCL between GPUs, by gloo between CPUs; collective."""
        if self.group.size == 1:
            return SINGLE
        if device.type != "cuda":
            return ProcessGroup()
        torch.cuda.set_device(device)
        limit = timedelta(seconds=self.timeout)
        return ProcessGroup(dist.new_group(timeout=limit, backend="cpu:gloo,cuda:nccl"))


ONE_PROCESS = Processes()  # of a process that was not started by torchrun


def join(launch: Launch, timeout: float) -> Processes:
    """Form a group with the other processes; one alone needs no address; collective.

    Args:
        launch: which process this is.
        timeout: seconds after which a process that does not answer counts as lost.
    """
    if launch.size == 1:
        return Processes(launch, timeout=timeout)
    limit = timedelta(seconds=timeout)
    store = meet(launch.rank, launch.size, max(limit, MEETING))
    dist.init_process_group("gloo", store=store, rank=launch.rank, world_size=launch.size, timeout=limit)
    patient = dist.new_group(timeout=PATIENCE, backend="gloo")
    return Processes(launch, ProcessGroup(patient, keepalive=Keepalive(store, timeout)), timeout)


def is_lost_peer(error: BaseException) -> bool:
    """Whether an error means that another process ended or does not answer.

    >>> is_lost_peer(RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4711"))
    True
    """
    if isinstance(error, dist.DistError):
        return True
    signs = ("gloo/", "Connection closed by peer", "Connection reset by peer", "Timed out waiting", "Broken pipe")
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)


def meet(rank: int, size: int, timeout: timedelta) -> dist.Store:
    """A store that only the processes of this start share; collective.

    torchrun keeps one store of keys over all its restarts, and a process that reads an address before its owner has
    written it again would connect to a dead one. So each process puts a token of its own into the store and publishes
    a digest of the tokens that it reads; when all digests are equal, these are the tokens of living processes, and
    name a part of the store for them.

    Args:
        rank: number of this process.
        size: how many there are.
        timeout: how long to wait for the others.

    Raises:
        RuntimeError: when they do not come in time.
    """
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    lead = rank == 0 and not hosted
    store = dist.TCPStore(address, port, size, lead, timeout, wait_for_workers=False, multi_tenant=True)
    return dist.PrefixStore(agree(store, rank, size, timeout), store)


def agree(store: dist.Store, rank: int, size: int, timeout: timedelta) -> str:
    """A name that these processes, and no earlier ones with the same ranks, have in common; collective.

    The digest that all publish contains each one's own new token, so that none was published before.
    """
    store.set(f"gpnn/token/{rank}", uuid.uuid4().hex)
    until = time.monotonic() + timeout.total_seconds()
    while time.monotonic() < until:
        tokens = store.multi_get([f"gpnn/token/{each}" for each in range(size)])
        seen = hashlib.sha256(b",".join(tokens)).hexdigest()
        store.set(f"gpnn/seen/{rank}", seen)
        if set(store.multi_get([f"gpnn/seen/{each}" for each in range(size)])) == {seen.encode()}:
            return f"gpnn/{seen}"
        time.sleep(0.02)
    raise RuntimeError(f"Timed out waiting for {size} processes to meet.")


KEY = "gpnn/keepalive"
LONGEST_PAUSE = 5.0  # seconds between two beats, or two looks at them
BUSY = 0.05  # of a core: more than gloo's threads take while they wait


@dataclass(frozen=True, eq=False)
class Keepalive:
    """A counter in the store that rank 0 raises as long as it makes progress.

    A process that is stopped, that is gone, or whose main thread waits for something that never comes (a pipe, a file
    system that does not answer) does not raise it.

    Attributes:
        store: shared by the processes.
        timeout: seconds without a beat after which rank 0 counts as lost.
    """

    store: dist.Store
    timeout: float

    @property
    def pause(self) -> float:
        """Seconds from one beat to the next."""
        return min(LONGEST_PAUSE, self.timeout / 4)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Raise the counter beside what the caller does."""
        done = threading.Event()
        thread = threading.Thread(target=self._beat, args=(done,), name="keepalive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def wait(self, work: dist.Work) -> None:
        """Return when `work`, which rank 0 takes part in, is done.

        Raises:
            RuntimeError: when the counter stands still for `timeout` seconds.
        """
        seen, since, looked, nap = -1, time.monotonic(), 0.0, 0.001
        while not work.is_completed():
            now = time.monotonic()
            if now - looked >= self.pause:
                looked, count = now, self.store.add(KEY, 0)
                if count != seen:
                    seen, since = count, now
            if now - since > self.timeout:
                raise RuntimeError(f"Timed out waiting for process 0, which shows no progress for {self.timeout:g} s.")
            time.sleep(nap)
            nap = min(2 * nap, 0.1)

    def _beat(self, done: threading.Event) -> None:
        slices, used, at = _main_thread_slices(), _seconds_of_others(), time.monotonic()
        with suppress(dist.DistError):  # the store is gone: the main thread finds out itself
            while not done.wait(self.pause):
                before, busy, since = slices, used, at
                slices, used, at = _main_thread_slices(), _seconds_of_others(), time.monotonic()
                if slices is None or slices != before or used - busy > BUSY * (at - since):
                    self.store.add(KEY, 1)


def _seconds_of_others() -> float:
    """Processor time of all threads but the calling one."""
    return time.process_time() - time.thread_time()


def _main_thread_slices() -> int | None:
    """How often the main thread was given a processor: the same number as long as it waits; None where unknown."""
    try:
        return int(Path(f"/proc/self/task/{os.getpid()}/schedstat").read_text().split()[2])
    except (OSError, IndexError, ValueError):
        return None
