"""Progress: what a run does now, as a bar or lines; and TensorBoard's curves of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, Self

from gpnn.check import import_extra
from gpnn.text import NotebookBar, in_notebook, metric_text, metric_words, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from torch.utils.tensorboard import SummaryWriter


HALF_MINUTE = 30.0
Record = Mapping[str, Any]


class Progress:
    """The one display of what takes its time: a stage, or the epochs of a training, whose callback it is.

    On a terminal and in a notebook it is a bar with the best validation so far, and the patience that is left.
    Elsewhere it is a line for every tenth of the epochs, of a race only for its results, and at least one every half
    minute, whatever takes so long.

    Args:
        what: is done first.
        silent: show nothing.
        every: seconds after which a line comes at the latest.

    >>> with Progress("reading the graph", silent=True) as progress:
    ...     progress.stage("training", epochs=200)
    """

    def __init__(self, what: str = "training", *, silent: bool = False, every: float = HALF_MINUTE) -> None:
        self.what, self.silent, self.every = what, silent, every
        self.epochs, self.best, self._races = 0, "", False
        self._checked: dict[str, Any] = {}  # the last epoch that was validated
        self._last = ""  # what was known after the last epoch
        self._bar: RichProgress | NotebookBar | None = None
        self._lock, self._end = RLock(), Event()
        self._began = self._printed = time.monotonic()

    def __enter__(self) -> Self:
        if self.silent:
            return self
        if sys.stderr.isatty() or in_notebook():
            self._bar = NotebookBar() if in_notebook() else _make_bar()
            self._bar.start()
            self._bar.add_task(self.what, total=None, facts="")
        else:
            self._ticker = Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._bar is not None:
            self._bar.stop()
        elif not self.silent:
            self._ticker.join()  # no line comes after the end

    def stage(self, what: str, epochs: int = 0) -> None:
        """Something else is done from now on; `epochs` of a training that begins, 0 of anything else."""
        with self._lock:
            self.what, self.epochs, self.best, self._checked, self._last = what, epochs, "", {}, ""
            self._races = False
            self._began = self._printed = time.monotonic()
        if self._bar is not None:
            self._bar.remove_task(self._bar.task_ids[0])
            self._bar.add_task(what, total=epochs or None, facts="")

    def rung(self, rung: int, name: str, epochs: int) -> None:
        """A training of a race begins, in a rung numbered from 0, or again with another seed."""
        self.stage(f"race, {'again' if '.' in name else f'rung {rung + 1}'}, {name}", epochs)
        self._races = True  # whose rows are printed as they come

    def measure(self, name: str) -> None:
        """An epoch of a recipe is measured before a race."""
        self.stage(f"race, measuring an epoch of {name}")

    def start(self, history: list[dict[str, Any]]) -> None:
        """A training begins; `history` holds the epochs of before, where it is resumed."""
        if not history:
            return
        best = history[-1].get("best_epoch")
        self.best = next((describe_best(each) for each in history if each["epoch"] == best), "")
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=len(history))
        elif not self._races:
            self._print(f"{self.what}: continuing after epoch {len(history)}")

    def epoch(self, record: dict[str, Any]) -> None:
        """An epoch is done."""
        if "val_loss" in record:
            self._checked = record
        if record.get("best_epoch") == record["epoch"]:
            self.best = describe_best(record)
        facts = describe_epoch({**self._checked, **record}, self.best)
        with self._lock:
            self._last = f"epoch {record['epoch']}/{self.epochs}  {facts}"
            tenth = not self._races and record["epoch"] % max(1, self.epochs // 10) == 0
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=record["epoch"], facts=self._last)
            elif tenth or time.monotonic() - self._printed >= self.every:
                self._print(f"{self.what}: {self._last}")

    def _print(self, line: str) -> None:
        if not self.silent:
            self._printed = time.monotonic()
            console().print(line, markup=False)

    def _tick(self) -> None:
        """Print a line whenever there was none for long, until the end."""
        while not self._end.wait(max(0.01, self._printed + self.every - time.monotonic())):
            with self._lock:
                now = time.monotonic()
                if now - self._printed >= self.every:
                    after = f", after {self._last}" if self._last else ""
                    self._print(f"{self.what}: {now - self._began:.0f} s{after}")


def console(*, silent: bool = False) -> Console:
    """The console of progress and messages, standard error; one that is silent prints nothing."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)


def _make_bar() -> RichProgress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeRemainingColumn(compact=True),
    )
    return Progress(*columns, console=console(), transient=True, expand=True)


def describe_epoch(record: Record, best: str = "") -> str:
    """An epoch in a line.

    >>> describe_epoch({"loss": 0.5, "val_accuracy": 0.75, "patience_left": 3}, "best 80.0 % (epoch 2)")
    'loss 0.5000  validation 75.0 %  best 80.0 % (epoch 2)  patience 3'
    """
    left, generation = record.get("patience_left"), record.get("generation")
    parts = [
        "" if generation is None else f"generation {generation}",
        f"loss {record['loss']:.4f}",
        describe_validation(record),
        best,
        "" if left is None else f"patience {left}",
    ]
    return "  ".join(filter(None, parts))


def describe_best(record: Record) -> str:
    """The validation of the best epoch.

    >>> describe_best({"epoch": 3, "val_loss": 0.5, "val_accuracy": 0.815})
    'best 81.5 % (epoch 3)'
    """
    name, value = _validation(record)
    return f"best {metric_text(name, value)} (epoch {record['epoch']})" if name else ""


def describe_validation(record: Record) -> str:
    """The validation accuracy, or another metric by its name.

    >>> describe_validation({"epoch": 3, "val_loss": 0.5, "val_accuracy": 0.815})
    'validation 81.5 %'
    >>> describe_validation({"epoch": 3, "val_loss": 0.5, "val_r2": 0.815})
    'validation R² 0.815'
    """
    name, value = _validation(record)
    if name == "val_accuracy":
        return f"validation {percent(value)}"
    return f"{metric_words(name)} {metric_text(name, value)}" if name else ""


def _validation(record: Record) -> tuple[str, float]:
    """The metric that was chosen, beside the accuracy, and its value; no name where nothing was checked."""
    names = [name for name in record if name.startswith("val_") and name != "val_loss"]
    name = next((name for name in names if name != "val_accuracy"), names[0] if names else "")
    return (name, record[name]) if name else ("", 0.0)


class TensorBoard:
    """The callback that writes every metric of every epoch as scalars; look at them with `tensorboard --logdir FOLDER`.

    A training that is resumed from a checkpoint has its curves drawn anew from its history, so that neither what a kill
    lost nor what it left behind the checkpoint shows. Whoever makes one closes it.

    Args:
        folder: where the event files go; it is made with the first one.

    Raises:
        ValueError: when TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        check_tensorboard()
        self.folder = folder
        self.writer: SummaryWriter | None = None

    def start(self, history: list[dict[str, Any]]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.close()
        self.writer = SummaryWriter(str(self.folder), purge_step=1 if self.folder.exists() else None)
        for record in history:
            self._write(record)
        self.writer.flush()

    def epoch(self, record: dict[str, Any]) -> None:
        assert self.writer is not None, "start comes first"
        self._write(record)
        self.writer.flush()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None

    def _write(self, record: dict[str, Any]) -> None:
        assert self.writer is not None
        for name, value in record.items():
            if name not in ("epoch", "generation", "best_epoch", "patience_left") and value is not None:
                self.writer.add_scalar(curve_name(name), value, record["epoch"])


def check_tensorboard() -> None:
    """Raise ValueError unless TensorBoard is installed."""
    import_extra("tensorboard", "log", "A curve of TensorBoard")


def curve_name(name: str) -> str:
    """The name of a metric's curve; those of one split stand together.

    >>> [curve_name(name) for name in ("loss", "val_loss", "val_accuracy", "learning_rate")]
    ['training/loss', 'validation/loss', 'validation/accuracy', 'training/learning_rate']
    """
    if name.startswith("val_"):
        return f"validation/{name.removeprefix('val_')}"
    return f"training/{name}"
