"""Where a run took place: what one needs to know to repeat it."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

import torch

import gpnn

_PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "numba", "scikit-learn", "pyarrow", "safetensors")


def describe_environment(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Versions, machine, threads, device and command line, as JSON takes them."""
    device = torch.device(device)
    return {
        "gpnn": gpnn.__version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "command": sys.argv,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
