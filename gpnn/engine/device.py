"""The device that a name means, the number of threads, and determinism."""

from __future__ import annotations

import os

import torch

from gpnn.storage.read import shorten


def choose_device(name: str = "auto") -> torch.device:
    """ "auto" is the GPU where there is one, else the CPU; other names are torch's own.

    Raises:
        ValueError: for a name that is no device, or a device that is not here.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"`device` must be auto, cpu, cuda or cuda:N. Got {shorten(name)}.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"`device` must be here: this machine has {torch.cuda.device_count()} GPUs. Got {name!r}.")
    return device


def make_deterministic() -> None:
    """Let torch use only operations that give the same bits each time, as ours do; for the whole process.

    An operation of the GPU that has no such form raises a RuntimeError that names it.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it at its first product
    torch.use_deterministic_algorithms(True)


def choose_threads(num_nodes: int, hidden_channels: int, available: int) -> int:
    """One thread where states have fewer than 2²⁰ entries, else all.

    Small states gain nothing from a second thread, and on busy cores they lose several times over.

    >>> choose_threads(1797, 64, 8), choose_threads(1_000_000, 64, 8)
    (1, 8)
    """
    return available if num_nodes * hidden_channels >= 1 << 20 else 1
