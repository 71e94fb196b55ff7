"""Downloads that resume, are verified, and get their final name only when they are complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gpnn.data.files import DataFile, sha256_of
from gpnn.storage.atomic import naming, wait_for_folder

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from io import FileIO

# Called after every chunk with the file's name, the bytes so far and the bytes in all (None when unknown).
Progress: TypeAlias = Callable[[str, int, int | None], None]

ATTEMPTS = 4
CHUNK = 1 << 16
TIMEOUT = 30.0
MOST = 16 << 30  # bytes of a file: no dataset is larger, and a server may send without end


def fetch_files(files: Iterable[DataFile], root: Path, progress: Progress | None = None) -> list[Path]:
    """Fetch the files that are not under `root` yet; their final paths, in the order given.

    Args:
        files: what to fetch; those without a public home are left out.
        root: the data folder.
        progress: called after every chunk; None draws a bar on the terminal.

    Raises:
        ConnectionError: when a file cannot be reached or is cut again and again; received bytes are kept to resume.
        ValueError: when a file's bytes are not the expected ones; nothing of it is kept.
    """
    wanted = [(file, file.url) for file in files if file.url is not None]
    root.mkdir(parents=True, exist_ok=True)
    with wait_for_folder(root), _bar(progress) as report:  # the ranks of one job need the same files
        for file, url in wanted:
            if not (root / file.path).is_file():
                download(url, root / file.path, file.sha256, report)
    return [root / file.path for file, _ in wanted]


def download(url: str, path: Path, sha256: str, progress: Progress | None = None) -> Path:
    """Fetch `url` to `path`, going on from `path.part` where an earlier try left one.

    Raises:
        ConnectionError: when the address cannot be reached, or the connection was cut at every attempt.
        ValueError: when the bytes have another sha256; then nothing is left.
        OSError: when the disk is full or the folder cannot be written; what came is kept to resume.
    """
    part = path.with_name(path.name + ".part")
    if part.is_symlink():  # never write through one
        part.unlink()
    resumed = part.exists()
    _complete(url, part, progress or _silent)
    if resumed and sha256_of(part) != sha256:  # the old part was not the beginning of this file
        part.unlink()
        _complete(url, part, progress or _silent)
    got = sha256_of(part)
    if got != sha256:
        part.unlink()
        raise ValueError(f"{url} must have sha256 {sha256}. Got {got}; nothing was kept.")
    with part.open("rb+") as stream:
        os.fsync(stream.fileno())
    part.replace(path)
    return path


def _complete(url: str, part: Path, progress: Progress) -> None:
    """Transfer until `part` has the length that the server announces, resuming from its current length."""
    for _ in range(ATTEMPTS):
        if _transfer(url, part, progress):
            return
    raise ConnectionError(
        f"{url} was cut off {ATTEMPTS} times; {part.stat().st_size} bytes are kept in {part.name}. "
        "Run it again to go on from there."
    )


def _transfer(url: str, part: Path, progress: Progress) -> bool:
    """Append what is missing to `part`; whether it is complete now."""
    have = part.stat().st_size if part.exists() else 0
    with _open(url, have, part) as response:
        if response.status == 416:  # nothing is missing; the checksum decides
            return True
        if response.status != 206 or _range_start(response) != have:
            have = 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab" if have else "wb", buffering=0) as stream:
            for chunk in _chunks(response):
                if chunk is None:
                    return False
                _append(stream, chunk, part)
                have += len(chunk)
                if have > MOST:
                    part.unlink()
                    raise ConnectionError(f"{url} must be at most {MOST >> 30} GiB. Got more; nothing was kept.")
                progress(part.name.removesuffix(".part"), have, total)
    return total is None or have == total


def _chunks(response: HTTPResponse) -> Iterator[bytes | None]:
    """What the server sends, piece by piece; None, at the end, where the connection was cut."""
    from http.client import HTTPException

    try:
        while chunk := response.read(CHUNK):
            yield chunk
    except (HTTPException, OSError):
        yield None


def _append(stream: FileIO, chunk: bytes, part: Path) -> None:
    """Write all of a piece; the error of a full disk names the file."""
    rest = memoryview(chunk)
    with naming(part):
        while rest:
            rest = rest[stream.write(rest) :]


def _open(url: str, have: int, part: Path) -> Any:
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    headers = {"User-Agent": "gpnn", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        if error.code == 416:
            return error
        error.close()
        reason: Any = f"the server returned {error.code}"
    except (URLError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        reason = getattr(reason, "strerror", None) or reason
    file = part.name.removesuffix(".part")
    raise ConnectionError(
        f"{file} is not in {part.parent} and could not be fetched from its public home, {url}: {reason}. Without a "
        "network, put it there by hand, or name the data folder that has it with `--root` or GPNN_DATA."
    )


def _range_start(response: HTTPResponse) -> int:
    """Where the range that the server sends begins: 5 in `bytes 5-99/100`."""
    span = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(span) if span.isdigit() else -1


def _silent(name: str, have: int, total: int | None) -> None:
    pass


@contextmanager
def _bar(progress: Progress | None) -> Iterator[Progress]:
    """`progress` itself, or a bar on the terminal with one line per file."""
    if progress is not None:
        yield progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _silent
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, Any] = {}

        def report(name: str, have: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=have, total=total)

        yield report
