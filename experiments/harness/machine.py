"""Machine: what a run's seconds were measured on, in words and without its name."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe_machine() -> str:
    """Processor, cores, memory, GPU where there is one, and versions.

    >>> "torch" in describe_machine()
    True
    """
    import torch

    device = f", {torch.cuda.get_device_name(0)}" if torch.cuda.is_available() else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = f"torch {torch.__version__.partition('+')[0]}, Python {platform.python_version()}"
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB{device}; {versions}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()
