"""available_bytes: the memory that this process may still take, and what it holds already, on a CPU or a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch

PAGE = 4096
_UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as the largest number of pages
BACKED = 0.85  # of the addresses that a training of millions of nodes takes: allocators keep others without pages


def resident_bytes(device: torch.device | str = "cpu") -> float:
    """Bytes that this process holds on a device now; 0 where the system does not report it."""
    if torch.device(device).type == "cuda":
        return float(torch.cuda.memory_allocated(device))
    status = Path("/proc/self/statm")
    return float(status.read_text().split()[1]) * PAGE if status.exists() else 0.0


def anonymous_bytes() -> float:
    """Bytes of this process's memory that are not pages of files; 0 where the system does not report it.

    Pages of a graph that is mapped are the system's to take back whenever it needs them.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(float(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def available_bytes(device: torch.device | str = "cpu", *, sharing: int = 1) -> float:
    """Bytes that this process could hold on a device: its own now and those that it may still take.

    On a CPU that is the least of what is free, what the control groups (v1 and v2) that the process is in have left,
    and what its own limits on address space (`ulimit -v`) and on data leave.

    Args:
        device: where.
        sharing: how many processes divide what is free among them; a process's own limits are its own.
    """
    if torch.device(device).type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device))
    if not Path("/proc/meminfo").exists():
        return math.inf
    shared = min([_free(), *cgroup_bytes_left()])
    return resident_bytes() + max(0.0, min(shared / sharing, *_own_bytes_left()))


def limit_device(device: torch.device, num_bytes: float) -> None:
    """Let torch take at most so many bytes of a GPU: an allocation beyond them fails; nothing on a CPU."""
    if device.type == "cuda":
        whole = torch.cuda.get_device_properties(device).total_memory
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.set_per_process_memory_fraction(min(1.0, num_bytes / whole), index)


def cgroup_bytes_left(root: Path = Path("/")) -> Iterator[float]:
    """Bytes that each control group of this process that has a limit leaves, those of the groups around it included.

    Pages of files are not counted as taken: the system gives them back before it refuses memory.

    Args:
        root: where `proc` and `sys` are found.
    """
    memberships = root / "proc/self/cgroup"
    for line in memberships.read_text().splitlines() if memberships.exists() else ():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))
            yield from _bytes_left(root / "sys/fs/cgroup/memory", path, *names)
        elif not controllers:
            names = ("memory.max", "memory.current", ("active_file", "inactive_file"))
            yield from _bytes_left(root / "sys/fs/cgroup", path, *names)


def _bytes_left(mount: Path, path: str, limit: str, usage: str, reclaimable: tuple[str, ...]) -> Iterator[float]:
    """What is left in the group at `path` and in each around it; in a container the mount itself may be the group."""
    group = mount / path.lstrip("/")
    group = group if group.is_dir() else mount
    while True:
        bound = _number(group / limit)
        if bound < _UNLIMITED:
            stat = group / "memory.stat"
            counts = dict(line.split() for line in stat.read_text().splitlines()) if stat.exists() else {}
            taken = _number(group / usage, missing=0.0) - sum(float(counts.get(name, 0)) for name in reclaimable)
            yield bound - max(0.0, taken)
        if group == mount:
            return
        group = group.parent


def _number(file: Path, missing: float = math.inf) -> float:
    text = file.read_text().strip() if file.exists() else ""
    return float(text) if text.isdigit() else missing


def _free() -> float:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return float(line.split()[1]) * 1024


def _own_bytes_left() -> list[float]:
    """What the limits on the address space and on the data of this process leave for what is resident."""
    import resource

    sizes = [float(pages) * PAGE for pages in Path("/proc/self/statm").read_text().split()]
    limits = ((resource.RLIMIT_AS, sizes[0]), (resource.RLIMIT_DATA, sizes[5]))
    soft = [(resource.getrlimit(kind)[0], taken) for kind, taken in limits]
    return [math.inf if bound == resource.RLIM_INFINITY else BACKED * (bound - taken) for bound, taken in soft]
