"""The files that `torch.save` writes, read without torch's unpickler: nothing that they name is called."""

from __future__ import annotations

import math
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.formats.stored_tensor import CONSTRUCTORS, OPCODES, StoredSparse, StoredTensor
from gpnn.data.pickle_machine import Constructors
from gpnn.data.tables.limits import check_size
from gpnn.data.unpickle import interpret

CHUNK = 1 << 20


class TorchArchive:
    """An open file of `torch.save`; a context manager.

    Args:
        path: the file.
        constructors: the names that it may use beside those of tensors.

    Attributes:
        content: what was saved; a tensor is a note, which :meth:`tensor` reads.

    Raises:
        ValueError: when it is no such file, would take too much memory, or uses another name. What damaged bytes make
            the standard library raise is left as it is, here and in :meth:`tensor`.
    """

    def __init__(self, path: Path, constructors: Constructors) -> None:
        self._name = path.name
        self._storages: dict[str, Tensor] = {}
        self._zip = zipfile.ZipFile(path)
        try:
            check_size(path.name, sum(member.file_size for member in self._zip.infolist()))
            self._folder = self._find_folder()
            self._check_byte_order()
            program = self._read("data.pkl").numpy().tobytes()
            self.content = interpret(program, {**CONSTRUCTORS, **constructors}, OPCODES)
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> TorchArchive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def tensor(self, note: StoredTensor | StoredSparse) -> Tensor:
        """The tensor that a note describes; strided ones of one storage share its memory.

        Raises:
            ValueError: when it shows more than its storage holds, or its indices do not fit.
        """
        if isinstance(note, StoredTensor):
            return self._strided(note)
        parts = [self._strided(part) for part in note.parts]
        make: Any = getattr(torch, f"{note.layout.removeprefix('torch.')}_tensor")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # CSR is in beta, torch says once a process
            try:
                return make(*parts, note.size, check_invariants=True)
            except RuntimeError as error:
                raise ValueError(f"a sparse tensor does not hold together: {str(error).splitlines()[0]}") from None

    def _strided(self, note: StoredTensor) -> Tensor:
        check_size(self._name, math.prod(note.size) * note.dtype.itemsize)  # a stride of 0 repeats without storage
        content = self._storage(note.storage.key)
        values = content.ne(0) if note.dtype == torch.bool else content.view(note.dtype)
        if 0 in note.size:
            return values.new_empty(note.size)
        last = note.offset + sum((size - 1) * stride for size, stride in zip(note.size, note.stride))
        if last >= len(values):
            raise ValueError(f"a tensor must lie within the {len(values)} numbers of its storage. Got number {last}.")
        return values.as_strided(note.size, note.stride, note.offset)

    def _storage(self, key: str) -> Tensor:
        """The bytes of a storage, read once."""
        if key not in self._storages:
            self._storages[key] = self._read(f"data/{key}")
        return self._storages[key]

    def _read(self, name: str) -> Tensor:
        """A member's bytes, uint8; their checksum is verified as they are read."""
        member = self._zip.getinfo(self._folder + name)
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"its member {name} must not be compressed.")
        content, start = torch.empty(member.file_size, dtype=torch.uint8), 0
        target = content.numpy()
        with self._zip.open(member) as stream:
            while chunk := stream.read(CHUNK):
                target[start : start + len(chunk)] = np.frombuffer(chunk, np.uint8)
                start += len(chunk)
        if start != len(content):
            raise ValueError(f"its member {name} must have {len(content)} bytes. Got {start}.")
        return content

    def _find_folder(self) -> str:
        """The folder within the archive, "graph/" in what was saved as `graph.pt`."""
        found = [name.removesuffix("data.pkl") for name in self._zip.namelist() if name.endswith("/data.pkl")]
        if len(found) != 1:
            raise ValueError("it must hold one data.pkl.")
        return found[0]

    def _check_byte_order(self) -> None:
        named = self._folder + "byteorder" in self._zip.namelist()  # files of torch before 2.1 name none
        if named and self._read("byteorder").numpy().tobytes() != sys.byteorder.encode():
            raise ValueError(f"it must be written on a {sys.byteorder}-endian machine.")
