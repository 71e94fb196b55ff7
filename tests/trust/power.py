"""A disk whose power may fail: what is left of a folder when everything that was not flushed is lost.

While a function works in a folder, each of its acts on files (open for writing, rename, link, remove, mkdir) and each
fsync is an instant at which the power may fail. What is left then is, in the strict case, of each folder the names of
its last fsync, in the lenient one the names as they stand; and of each file the content of its last fsync, else
nothing, its first half, or zeros. A reader must find the old state or the new one in all of them.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ACTS = ("open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree")
LOST: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
}
END = "the end"  # of all acts: what was done must be there
Image = dict[str, bytes | None]  # content by path; None: a folder


@dataclass
class Disk:
    """A folder on a disk that loses what is not flushed; all that is there at the start is.

    Attributes:
        root: the folder.
        images: what may be left of it, each once, with the act before which the power failed;
            `END` where it failed after all.
    """

    root: Path
    images: dict[bytes, tuple[str, Image]] = field(default_factory=dict)
    _ids: dict[int, int] = field(default_factory=dict)  # inode -> a number that no other file ever had
    _content: dict[int, bytes] = field(default_factory=dict)  # as it stands, or stood when it was removed
    _flushed: dict[int, bytes] = field(default_factory=dict)
    _names: dict[int, dict[str, int]] = field(default_factory=dict)  # of each folder as it stands
    _flushed_names: dict[int, dict[str, int]] = field(default_factory=dict)
    _count: int = 0

    def start(self) -> None:
        """Take all that is there as flushed."""
        self._scan()
        self._flushed, self._flushed_names = dict(self._content), dict(self._names)

    def fail(self, act: str) -> None:
        """Note what is left when the power fails here."""
        self._scan()
        top = self._ids[self.root.stat().st_ino]
        for names in (self._flushed_names, self._names):
            for lose in LOST.values():
                image: Image = {}
                self._fill(image, "", top, names, lose)
                digest = _digest(image)
                if act == END or digest not in self.images:
                    self.images[digest] = act, image

    def flush(self, handle: int) -> None:
        """Note the content of an open file, or the names in an open folder, as flushed."""
        self._scan()
        number = self._ids.get(os.fstat(handle).st_ino)
        if number in self._content:
            self._flushed[number] = self._content[number]
        elif number in self._names:
            self._flushed_names[number] = self._names[number]

    def write(self, image: Image, folder: Path) -> Path:
        """Make what is left in a new folder."""
        folder.mkdir(parents=True)
        for name, content in image.items():
            if content is None:
                (folder / name).mkdir()
            else:
                (folder / name).write_bytes(content)
        return folder

    def _fill(
        self, image: Image, prefix: str, number: int, names: dict[int, dict[str, int]], lose: Callable[[bytes], bytes]
    ) -> None:
        for name, each in sorted(names.get(number, {}).items()):
            if each in self._names:
                image[prefix + name] = None
                self._fill(image, f"{prefix}{name}/", each, names, lose)
            else:
                image[prefix + name] = self._flushed.get(each, lose(self._content[each]))

    def _scan(self) -> None:
        seen: set[int] = set()
        self._scan_folder(self.root, seen)
        self._ids = {inode: number for inode, number in self._ids.items() if inode in seen}

    def _scan_folder(self, folder: Path, seen: set[int]) -> int:
        number = self._number(folder, seen)
        self._names[number] = {
            each.name: self._scan_folder(each, seen) if each.is_dir() else self._scan_file(each, seen)
            for each in sorted(folder.iterdir())
        }
        return number

    def _scan_file(self, path: Path, seen: set[int]) -> int:
        number = self._number(path, seen)
        self._content[number] = path.read_bytes()
        return number

    def _number(self, path: Path, seen: set[int]) -> int:
        inode = path.stat().st_ino
        seen.add(inode)
        if inode not in self._ids:
            self._count += 1
            self._ids[inode] = self._count
        return self._ids[inode]


class _Hook:
    """The audit hook of this process, which cannot be removed; it serves the disk that is in use."""

    disk: Disk | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.disk is None or event not in ACTS:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        self.observe(f"{event} {arguments[0]}", Disk.fail)

    def observe(self, what: Any, act: Callable[[Disk, Any], None]) -> None:
        disk, self.disk = self.disk, None  # what it does itself is no act
        assert disk is not None
        try:
            act(disk, what)
        finally:
            self.disk = disk


_HOOK = _Hook()
_INSTALLED: list[_Hook] = []


@contextmanager
def power_failures(root: Path) -> Iterator[Disk]:
    """Note in the disk's images what a power failure at any instant inside would leave of `root`."""
    if not _INSTALLED:
        sys.addaudithook(_HOOK)
        _INSTALLED.append(_HOOK)
    disk, fsync = Disk(root), os.fsync
    disk.start()

    def noted(handle: Any) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        fsync(number)
        if _HOOK.disk is not None:
            _HOOK.observe(f"fsync {number}", Disk.fail)
            _HOOK.observe(number, Disk.flush)

    os.fsync, _HOOK.disk = noted, disk
    try:
        yield disk
    finally:
        os.fsync, _HOOK.disk = fsync, None
    disk.fail(END)


def _digest(image: Image) -> bytes:
    digest = hashlib.sha256()
    for name, content in image.items():
        digest.update(f"{name} {None if content is None else len(content)}\n".encode() + (content or b""))
    return digest.digest()
