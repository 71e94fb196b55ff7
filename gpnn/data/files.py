"""The files of the datasets: their folder, public addresses, checksums and state."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require(paths: Iterable[str], root: Path) -> None:
    """Download the files at `paths` that are not under `root` yet."""
    missing = [describe(path) for path in paths if not (root / path).is_file()]
    if missing:
        from gpnn.data.download import fetch_files

        fetch_files(missing, root)
