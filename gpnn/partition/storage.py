"""Partitions as files: safetensors, or the text that METIS writes."""

from __future__ import annotations

import re
import warnings
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from gpnn.partition.partition import Partition
from gpnn.storage.atomic import replace_file
from gpnn.storage.tensors import read_tensors, write_tensors

MOST_EMPTY = 1 << 20  # parts that a file may declare beyond its nodes: a declared number costs memory
_METIS_NAME = re.compile(r"\.part\.(\d+)$")


def write(partition: Partition, path: str | PathLike[str]) -> None:
    """Write `partition` so that a kill leaves the old file or the new one.

    Raises:
        ValueError: when a `.part.K` name states another K than the partition has, or the name ends otherwise.
        OSError: when the disk is full or the folder cannot be written.
    """
    path = Path(path)
    if named := _METIS_NAME.search(path.name):
        if named[1] != str(partition.num_parts):
            raise ValueError(f"`{path.name}` must end in .part.{partition.num_parts}. Got .part.{named[1]}.")
        replace_file(path, lambda partial: np.savetxt(partial, partition.labels.numpy(), fmt="%d"))
    elif path.suffix != ".safetensors":
        raise ValueError(
            f"A partition file must end in .safetensors or .part.{partition.num_parts}. Got {path.name!r}."
        )
    else:
        write_tensors(path, {"labels": partition.labels.to(torch.int32)}, {"num_parts": partition.num_parts})


def read(path: str | PathLike[str]) -> Partition:
    """The partition in a saved file, or in a METIS `.part.K` file (one part a line, from 0).

    Raises:
        ValueError: when the file is neither.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"`path` must name a partition file. Got {str(path)!r}, which is not a file.")
    if named := _METIS_NAME.search(path.name):
        labels, num_parts = _read_metis(path), int(named[1][:19])
    else:
        labels, num_parts = _read_saved(path)
    if num_parts > len(labels) + MOST_EMPTY:
        raise ValueError(f"{path.name} must state a number of parts near its {len(labels)} nodes. Got {num_parts}.")
    return Partition(labels, num_parts)


def _read_metis(path: Path) -> torch.Tensor:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns when it stops before the end
            labels = np.fromstring(path.read_text(), dtype=np.int64, sep="\n")
    except (DeprecationWarning, ValueError, UnicodeDecodeError):
        raise ValueError(f"{path.name} must hold one integer a line. Got something else.") from None
    return torch.from_numpy(labels)


def _read_saved(path: Path) -> tuple[torch.Tensor, int]:
    tensors, description = read_tensors(path, "a saved partition or end in .part.K")
    num_parts = description.get("num_parts")
    if "labels" not in tensors or type(num_parts) is not int:
        raise ValueError(f"{path.name} must hold `labels` and their `num_parts`. Got neither or one.")
    return tensors["labels"], num_parts
