"""RunFolder: all that a training leaves behind, consistent at every instant."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch
from torch import Tensor

import gpnn
from gpnn.storage.atomic import (
    finite,
    lock,
    make_folder,
    naming,
    open_folder,
    remove_abandoned,
    staging_folder,
    sync_file,
    sync_folder,
    write_json,
    write_text,
)
from gpnn.storage.read import check_regular, parse_json, read_json, read_text, shorten
from gpnn.storage.tensors import read_tensors, write_tensors

WORDS = ("metric", "stopped", "task")  # metrics that are not numbers


class _Place:
    """A file or a folder of a run, by its name: the attribute of a run is its path."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run: RunFolder, kind: type | None = None) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run and the names of its files.

    `config.toml` and `environment.json` are there from the start; `history.jsonl` grows by a line per epoch;
    `checkpoint/` fills with the first checkpoint; `model.safetensors` and `predictions.parquet`, which holds
    the subgraph of each node, come at the end and `metrics.json` last: where it stands, the run has results, and is
    finished unless a signal stopped it. A training that diverged leaves `failed.json` in their place: it has no
    predictions. `report.html` and `model_card.md` are `gpnn.report`'s, `tensorboard/` is there on request. `race.json`
    and `search.json` tell what was tried before, `baselines.json` what plain methods reach. Where predictions are a
    blend, `members/` holds a run for each of the other models.

    >>> RunFolder(Path("runs/demo")).metrics.name
    'metrics.json'
    """

    path: Path

    config = _Place("config.toml")
    metrics = _Place("metrics.json")
    history = _Place("history.jsonl")
    model = _Place("model.safetensors")
    checkpoint = _Place("checkpoint/training.safetensors")
    failed = _Place("failed.json")
    predictions = _Place("predictions.parquet")
    environment = _Place("environment.json")
    search = _Place("search.json")
    race = _Place("race.json")
    members = _Place("members")
    baselines = _Place("baselines.json")
    report = _Place("report.html")
    model_card = _Place("model_card.md")
    tensorboard = _Place("tensorboard")

    @property
    def has_results(self) -> bool:
        """Whether the run has a model, predictions and metrics, be it that a signal stopped its training."""
        return self.metrics.exists()

    @property
    def finished(self) -> bool:
        """Whether the training came to its end."""
        return self.has_results and read_json(self.metrics).get("stopped") != "interrupted"

    def take_checkpoint(self, folder: Path) -> None:
        """Make the checkpoint of an earlier training the run's, where there is one, and remove those beside it."""
        if folder.exists():
            shutil.rmtree(self.checkpoint.parent, ignore_errors=True)
            folder.replace(self.checkpoint.parent)
        shutil.rmtree(folder.parent, ignore_errors=True)

    def reopen(self) -> None:
        """Resume the training: the run has no results until it ends, but its model still serves predictions."""
        self.metrics.unlink(missing_ok=True)
        self.report.unlink(missing_ok=True)
        self.model_card.unlink(missing_ok=True)

    @classmethod
    def create(cls, path: Path, files: Mapping[str, str]) -> RunFolder:
        """Make the folder with its first files in it; it appears whole or not at all.

        Args:
            path: where; it must not exist, or be empty.
            files: the text of each file, by name.

        Raises:
            ValueError: when there is something at `path` already.
        """
        check_free(path)
        make_folder(path.parent)
        with staging_folder(path) as folder:
            partial = folder / "run"
            (partial / "checkpoint").mkdir(parents=True)
            for name, text in files.items():
                write_text(partial / name, text)
            partial.replace(path)
        sync_folder(path.parent)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run at `path`.

        Raises:
            ValueError: when there is none, a folder in it is a link (what is written there would lie elsewhere), or
                something in it is neither file nor folder.
        """
        run = cls(path)
        if not run.config.is_file():
            raise ValueError(f"A run folder must hold config.toml. {str(path)!r} does not.")
        for folder in (run.checkpoint.parent, run.tensorboard, run.path / "race", run.members):
            if folder.is_symlink():
                raise ValueError(f"The folders of a run must not be links. {str(folder)!r} is one.")
        for each in (*path.glob("*"), *run.checkpoint.parent.glob("*")):
            if not each.is_dir():
                check_regular(each)
        return run

    def write_failure(self, problem: str) -> None:
        """Note why the training failed; the run has neither model nor predictions nor metrics."""
        write_json(self.failed, {"problem": problem})

    def check_succeeded(self) -> None:
        """Raise ValueError, with the reason, when the training failed: it cannot be resumed and has no predictions."""
        if self.failed.is_file():
            problem = read_json(self.failed).get("problem")
            raise ValueError(f"The training of {str(self.path)!r} failed. {str(problem)[:600]}")

    def append_history(self, record: Mapping[str, Any]) -> None:
        """Add one epoch's record; one write, so that a reader never sees half a line of a living run."""
        with naming(self.history), self.history.open("a", encoding="utf-8") as file:
            file.write(_line(record))

    def rewrite_history(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Make the history these records: what a checkpoint holds, when a run is resumed from it."""
        write_text(self.history, "".join(map(_line, records)))

    def read_history(self) -> list[dict[str, Any]]:
        """The records of the epochs so far; a last line that a kill cut short is left out.

        Raises:
            ValueError: naming the line that is no record.
        """
        if not self.history.exists():
            return []
        *lines, _cut = read_text(self.history).split("\n")
        return [_record(line, f"{self.history.name}, line {number}") for number, line in enumerate(lines, 1)]

    def write_model(self, weights: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
        """Write the weights, with the model's description as JSON in the metadata."""
        write_tensors(self.model, weights, description)

    def read_model(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights and the description that :meth:`write_model` wrote.

        Raises:
            ValueError: when the run has none yet, its training failed, or the file is damaged.
        """
        self.check_succeeded()
        return read_model(self.model)

    def write_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write the final metrics, which make the run finished; its history is flushed to the disk before."""
        if self.history.exists():
            sync_file(self.history)
        write_json(self.metrics, metrics)

    def read_metrics(self) -> dict[str, Any]:
        """The final metrics.

        Raises:
            ValueError: when the run is not finished, its training failed, or the file is damaged.
        """
        self.check_succeeded()
        if not self.has_results:
            raise ValueError(f"A finished run must hold {self.metrics.name}. {str(self.path)!r} does not.")
        return _check_metrics(read_json(self.metrics), self.metrics.name)

    def write_baselines(self, metrics: Mapping[str, Mapping[str, float]]) -> None:
        write_json(self.baselines, metrics)

    def read_baselines(self) -> dict[str, dict[str, Any]]:
        """The metrics of plain methods, by name; none where they were not run.

        Raises:
            ValueError: when the file is damaged.
        """
        if not self.baselines.exists():
            return {}
        found = read_json(self.baselines)
        for name, values in found.items():
            if not isinstance(values, dict):
                raise ValueError(f"`{name[:80]}` in {self.baselines.name} must be metrics. Got {shorten(values)}.")
            _check_metrics(values, self.baselines.name)
        return found


@dataclass(frozen=True)
class HistoryFile:
    """The callback that keeps a run's `history.jsonl` in step with its training."""

    run: RunFolder

    def start(self, history: list[dict[str, Any]]) -> None:
        """Drop the epochs that a kill left behind the last checkpoint."""
        self.run.rewrite_history(history)

    def epoch(self, record: dict[str, Any]) -> None:
        self.run.append_history(record)


def read_model(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and description of a model file; nothing is unpickled.

    Raises:
        ValueError: when there is no such file or it is no model of ours.
    """
    if not path.is_file():
        raise ValueError(f"A finished run must hold {path.name}. {str(path.parent)!r} does not.")
    return read_tensors(path, "a model")


def check_free(path: Path) -> None:
    """Raise ValueError unless there is room for a run folder at `path`, and OSError where none can be made."""
    if RunFolder(path).config.exists():
        raise ValueError(
            f"The run folder must be new. {str(path)!r} holds a run; continue it with `gpnn train --resume {path}`."
        )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"The run folder must be new or empty. {str(path)!r} is not.")
    place = next(each for each in path.absolute().parents if each.exists())
    try:
        TemporaryFile(dir=place).close()
    except OSError as error:
        error.filename = str(path)
        raise


def _record(line: str, name: str) -> dict[str, Any]:
    """The metrics of an epoch; `name` is where they stand."""
    record = _check_metrics(parse_json(line, name), name)
    if type(record.get("epoch")) is not int:
        raise ValueError(f"{name} must number its epoch. Got {shorten(record.get('epoch'))}.")
    return record


def _check_metrics(values: dict[str, Any], name: str) -> dict[str, Any]:
    """The same values, when each is a number or missing, but for words where words belong."""
    for key, value in values.items():
        if not isinstance(value, str if key in WORDS else int | float | None):
            kind = "a word" if key in WORDS else "a number or null"
            raise ValueError(f"`{key[:80]}` in {name} must be {kind}. Got {shorten(value)}.")
    return values


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(finite(record), allow_nan=False) + "\n"


@contextmanager
def reserve_run_path(name: str, parent: Path = Path("runs")) -> Iterator[Path]:
    """A new, empty folder `runs/NAME-YYYYmmdd-HHMMSS`, numbered where that is taken, for the run to be made in.

    It is this process's, also where others start at the same time; where it stays empty it is removed, and `runs` too
    if it was made for it.
    """
    stem, number, is_new = f"{name}-{datetime.now():%Y%m%d-%H%M%S}", 1, not parent.exists()
    while True:
        make_folder(parent)
        path = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            continue
        except FileNotFoundError:  # another, whose run came to nothing, removed the parent
            continue
        break
    try:
        yield path
    finally:
        with suppress(OSError):  # a run is in it
            path.rmdir()
            if is_new:
                parent.rmdir()


def remove_unfinished(path: Path) -> None:
    """Remove what killed processes left unfinished in a run folder, its checkpoints, its race and its members."""
    remove_abandoned(path)
    for folder in (path / "checkpoint", path / "members", *path.glob("race/*"), *path.glob("members/*")):
        if not folder.is_symlink():
            remove_abandoned(folder)


@contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Hold the run folder for this process; the system releases it when the process ends, however it ends.

    What a killed process left in it unfinished is removed. Where the system or the file system knows no such lock,
    nothing is held.

    Raises:
        ValueError: when another process holds it.
    """
    handle = open_folder(path.resolve())
    try:
        if handle is not None:
            _lock(handle, path)
        remove_unfinished(path)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        lock(handle, wait=False)
    except BlockingIOError:
        raise ValueError(
            f"A run folder must be written by one process at a time. {str(path)!r} is in use by another."
        ) from None


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
