"""The files of the datasets: their folder, public addresses, checksums and state; and downloads.

A download resumes, is verified, and gets its final name only when it is complete.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gpnn.storage.atomic import naming, wait_for_folder
from gpnn.storage.read import check_regular

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from io import FileIO

    from torch_geometric.data import Data

_PLANETOID = "https://raw.githubusercontent.com/kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3"
_NELL = "https://media.githubusercontent.com/media/D61-IA/FisherGCN/140cb297acb89ece53947026224e5e85a8dc7312"
_BABI = "https://raw.githubusercontent.com/chingyaoc/ggnn.pytorch/0c7897fe9b05e9b4f9a963ff55bd3ad917ea734e"
# Folder under the root -> the public home of its files. NELL's are those of the Planetoid authors' archive
# (nell_data.tar.gz); this copy has them one by one, `ally` included, with their sha256 in public.
HOMES = {
    "planetoid/": f"{_PLANETOID}/data/",
    "nell/": f"{_NELL}/data/",
    "babi/fold_1/": f"{_BABI}/babi_data/processed_1/",
    "babi/fold_2/": f"{_BABI}/babi_data/processed_2/",
}
_SUMS = Path(__file__).with_name("SHA256SUMS").read_text().splitlines()  # for `sha256sum --check` in the data folder
SHA256 = {path: digest for digest, path in map(str.split, _SUMS)}
# Dataset -> how the paths of its files begin. A dataset that is not here has no file to fetch.
PREFIXES = {
    "cora": "planetoid/ind.cora.",
    "citeseer": "planetoid/ind.citeseer.",
    "pubmed": "planetoid/ind.pubmed.",
    "nell": "nell/",
    "babi": "babi/",
    **{Path(path).stem: path for path in SHA256 if path.startswith("kinds/")},
}
RECOVERED_LABELS = "nell/recovered_labels.npz"
DERIVED = (RECOVERED_LABELS, "kinds/")  # how the paths of files begin that have no public home
# Called after every chunk with the file's name, the bytes so far and the bytes in all (None when unknown).
Progress: TypeAlias = Callable[[str, int, int | None], None]
ATTEMPTS = 4
CHUNK = 1 << 16
TIMEOUT = 30.0
MOST = 16 << 30  # bytes of a file: no dataset is larger, and a server may send without end


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset.

    Attributes:
        path: relative to the data folder.
        sha256: the checksum of its bytes.
        url: its public home, or None where it has none.
        optional: whether the dataset can be read without it.
    """

    path: str
    sha256: str
    url: str | None
    optional: bool = False


def data_folder(root: str | Path | None = None) -> Path:
    """The folder that holds the datasets: `root`, else `GPNN_DATA`, else `gpnn` in the user's cache."""
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get("GPNN_DATA"):
        return Path(os.environ["GPNN_DATA"]).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gpnn"


def dataset_files(name: str) -> tuple[DataFile, ...]:
    """Every file that the dataset `name` is read from; none for a generated or embedded one."""
    prefix = PREFIXES.get(name)
    return tuple(describe(path) for path in SHA256 if prefix and path.startswith(prefix))


def describe(path: str) -> DataFile:
    """The file at `path` under the data folder: its checksum, its public home."""
    url = None if path.startswith(DERIVED) else _address(path)
    optional = path == RECOVERED_LABELS or (path.startswith("nell/") and path.endswith(".ally"))
    return DataFile(path, SHA256[path], url, optional)


def _address(path: str) -> str:
    home = next(folder for folder in HOMES if path.startswith(folder))
    return HOMES[home] + path.removeprefix(home)


def file_state(file: DataFile, root: Path) -> str:
    """The state of a file: "ok", "corrupt", "missing", or "optional" (missing, not needed)."""
    path = root / file.path
    if not path.is_file():
        return "optional" if file.optional else "missing"
    return "ok" if sha256_of(path) == file.sha256 else "corrupt"


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    check_regular(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def named_reader(read: Callable[..., Data], name: str, line: str) -> Callable[..., Data]:
    """One of several datasets that are read alike: `read` of its name, and its line in `gpnn data list`."""
    reader = partial(read, name)
    reader.__doc__ = line
    return reader


def require(paths: Iterable[str], root: Path) -> None:
    """Download the files at `paths` that are not under `root` yet."""
    missing = [describe(path) for path in paths if not (root / path).is_file()]
    if missing:
        fetch_files(missing, root)


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
    """Fetch `url` to `path`, continuing `path.part` where an earlier try left one.

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
        "Run it again to continue from there."
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
