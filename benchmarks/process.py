"""What benchmarks share: a fresh process for each contender, its time and its memory."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any


def run_alone(file: str, arguments: list[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
    """The metrics that `file` prints last, as JSON, when it runs with these arguments in a process of its own."""
    command = [sys.executable, file, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | (environment or {}))
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return {"failed": "out of memory" if done.returncode in (-9, 137) else lines[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def time_steps(step: Callable[[], object], repeats: int, *, untimed: int = 0) -> dict[str, float]:
    """Median wall and CPU seconds of a step, resident bytes at its peak and before it, and at the peak till then."""
    earlier, before = peak_bytes(), reset_peak()
    for _ in range(untimed):
        step()
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), cpu_seconds()
        step()
        walls.append(time.perf_counter() - wall)
        cpus.append(cpu_seconds() - cpu)
    return {"wall": median(walls), "cpu": median(cpus), "peak": peak_bytes(), "before": before, "earlier": earlier}


def cpu_seconds() -> float:
    """User and system seconds of this process so far, over all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def reset_peak() -> int:
    """Let the peak count from here, freed memory returned first; the resident bytes now."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak_bytes() -> int:
    return status("VmHWM")


def describe_machine() -> str:
    """Cores, memory and versions, without names of hosts."""
    import torch

    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "CPU")
    memory = int(next(line for line in _lines("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) / 2**20
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    products = [name for name in ("avx512_bf16", "amx_bf16") if capabilities.get(name)]
    words = f"bf16 products in hardware: {', '.join(products) or 'none'}"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    used, present = len(os.sched_getaffinity(0)), os.cpu_count()
    cores = f"{used} cores" if used == present else f"{used} of {present} cores"
    return f"{cores} ({model}), {memory:.0f} GiB; {words}; {versions}"


def describe_gpu() -> str:
    """The GPU, cores, memory and versions, without names of hosts."""
    import torch
    import triton

    gpu = f"{torch.cuda.get_device_name()} ({torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB)"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, triton {triton.__version__}"
    return f"one {gpu}, {os.cpu_count()} cores, {memory:.0f} GiB of host memory; {versions}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def status(name: str) -> int:
    return int(next(line for line in _lines("/proc/self/status") if line.startswith(name)).split()[1]) * 1024
