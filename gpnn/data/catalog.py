"""The catalogue of datasets: their files, whether they are present and intact, and how to fetch them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.data.diel import ARCHIVE, diel_files
from gpnn.data.files import data_folder, dataset_files, file_state
from gpnn.data.formats.ogb import OGB, raw_file
from gpnn.data.kinds import KINDS, missing_kind
from gpnn.data.load import DATASETS, check_name, loader_options

if TYPE_CHECKING:
    from gpnn.data.download import Progress

UNVERIFIED = ("diel", *OGB)  # datasets whose files have no known sha256 and no copy to fetch


@dataclass(frozen=True)
class DatasetInfo:
    """A line of `gpnn data list`.

    Attributes:
        name: the dataset's name.
        description: one line.
        options: its options with their defaults.
        present: whether it can be loaded without fetching anything.
    """

    name: str
    description: str
    options: dict[str, Any]
    present: bool


def list_datasets(root: str | Path | None = None) -> list[DatasetInfo]:
    """Every dataset by name, with its description, its options, and whether its files are there."""
    infos = []
    for name, loader in DATASETS.items():
        description = (inspect.getdoc(loader) or "").partition("\n")[0]
        present = "missing" not in _presence(name, data_folder(root))
        infos.append(DatasetInfo(name, description, loader_options(loader), present))
    return infos


def fetch_dataset(name: str, root: str | Path | None = None, progress: Progress | None = None) -> list[Path]:
    """Fetch the files of a dataset that are not in the data folder yet; the paths of all it can fetch.

    Args:
        name: a name of `DATASETS`; one without files to fetch gives an empty list.
        root: the data folder; else `GPNN_DATA`, else the user's cache.
        progress: called with (file, bytes so far, bytes in all) after each chunk; None draws a bar on the terminal.

    Raises:
        ValueError: for an unknown name, bytes with another sha256, or a dataset without a public copy.
        ConnectionError: when a file cannot be reached; what came is kept, to go on from.
    """
    from gpnn.data.download import fetch_files

    check_name(name)
    folder = data_folder(root)
    if name in UNVERIFIED and "missing" in _presence(name, folder):
        archive, place = (
            (ARCHIVE, folder / "diel") if name == "diel" else ("its archive", (folder / raw_file(name)).parents[1])
        )
        raise ValueError(f"{name} has no copy that can be verified: unpack {archive} so that its files are in {place}.")
    if name in KINDS and "missing" in _presence(name, folder):
        raise ValueError(missing_kind(name, folder))
    return fetch_files(dataset_files(name), folder, progress)


def verify_files(name: str, root: str | Path | None = None) -> dict[str, str]:
    """The state of each of a dataset's files.

    Args:
        name: a name of `DATASETS`; one without files gives an empty mapping.
        root: the data folder; else `GPNN_DATA`, else the user's cache.

    Returns:
        Path under the data folder -> "ok" (the sha256 is right), "corrupt" (it is not), "missing", "optional"
        (missing, but the dataset loads without it) or "unverified" (present, its sha256 is not known).
    """
    check_name(name)
    folder = data_folder(root)
    if name in UNVERIFIED:
        return _unverified(name, folder)
    return {file.path: file_state(file, folder) for file in dataset_files(name)}


def _presence(name: str, folder: Path) -> list[str]:
    if name in UNVERIFIED:
        return list(_unverified(name, folder).values())
    files = [file for file in dataset_files(name) if not file.optional]
    return ["ok" if (folder / file.path).is_file() else "missing" for file in files]


def _unverified(name: str, folder: Path) -> dict[str, str]:
    """The state of files whose sha256 is not known."""
    paths = (
        [f"diel/{path}" for split in range(10) for path in diel_files(split)] if name == "diel" else [raw_file(name)]
    )
    return {path: "unverified" if (folder / path).is_file() else "missing" for path in paths}
