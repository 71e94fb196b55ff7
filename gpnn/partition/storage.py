"""Partitions as files: safetensors, or the text that METIS writes."""

from __future__ import annotations

import os
import re
import warnings
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from gpnn.partition.partition import Partition

_METIS_NAME = re.compile(r"\.part\.(\d+)$")


def write(partition: Partition, path: str | PathLike[str]) -> None:
    """Write `partition` to a temporary name beside `path`, then rename it.

    Raises:
        ValueError: when a `.part.K` name states another K than the partition has.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    if named := _METIS_NAME.search(path.name):
        if int(named[1]) != partition.num_parts:
            raise ValueError(f"`{path.name}` must end in .part.{partition.num_parts}. Got .part.{named[1]}.")
        np.savetxt(temporary, partition.labels.numpy(), fmt="%d")
    else:
        from safetensors.torch import save_file

        labels = partition.labels.to(torch.int32)
        save_file({"labels": labels}, temporary, metadata={"num_parts": str(partition.num_parts)})
    temporary.replace(path)


def read(path: str | PathLike[str]) -> Partition:
    """The partition in a saved file, or in a METIS `.part.K` file (one part a line, from 0).

    Raises:
        ValueError: when the file is neither.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"`path` must name a partition file. Got {str(path)!r}, which is not a file.")
    if named := _METIS_NAME.search(path.name):
        return _read_metis(path, int(named[1]))
    return _read_saved(path)


def _read_metis(path: Path, num_parts: int) -> Partition:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns when it stops before the end
            labels = np.fromstring(path.read_text(), dtype=np.int64, sep="\n")
    except (DeprecationWarning, ValueError, UnicodeDecodeError):
        raise ValueError(f"{path.name} must hold one integer a line. Got something else.") from None
    return Partition(torch.from_numpy(labels), num_parts)


def _read_saved(path: Path) -> Partition:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            num_parts = (file.metadata() or {}).get("num_parts", "")
            labels = file.get_tensor("labels") if num_parts.isdecimal() else None
    except SafetensorError as error:
        raise ValueError(f"{path.name} must be a saved partition or end in .part.K. Got: {error}.") from None
    if labels is None:
        raise ValueError(f"{path.name} must state `num_parts` in its metadata. Got none.")
    return Partition(labels, int(num_parts))
