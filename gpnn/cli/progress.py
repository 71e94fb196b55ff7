"""Callbacks of a training for the user: a progress bar, plain lines, and Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from gpnn.cli.show import messages
from gpnn.text import metric_text, percent

if TYPE_CHECKING:
    from rich.progress import Progress

    from gpnn.train.fit import Callback, Record


@contextmanager
def progress_callback(epochs: int) -> Iterator[Callback]:
    """A bar where there is a terminal to draw it on, else a line for every tenth of the epochs."""
    if not sys.stderr.isatty():
        yield Lines(epochs)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(bar_width=None),
        TextColumn("{task.description}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    with Progress(*columns, console=messages(), transient=True, expand=True) as progress:
        yield Bar(progress, epochs)


@contextmanager
def waiting(what: str, *, silent: bool) -> Iterator[None]:
    """A line that moves while something takes its time, where there is a terminal to draw it on."""
    if silent or not sys.stderr.isatty():
        yield
        return
    with messages().status(what):
        yield


class Bar:
    """A live progress bar with loss, validation metric, seconds per epoch and the time left."""

    def __init__(self, progress: Progress, epochs: int) -> None:
        self.progress, self.validation = progress, ""
        self.task = progress.add_task("", total=epochs)

    def start(self, history: list[Record]) -> None:
        self.progress.update(self.task, completed=len(history))

    def epoch(self, record: Record) -> None:
        self.validation = describe_validation(record) or self.validation
        parts = [f"loss {record['loss']:.4f}", self.validation, f"{record['seconds']:.2f} s per epoch"]
        self.progress.update(self.task, advance=1, description="  ".join(filter(None, parts)))


class Lines:
    """A line for every tenth of the epochs, for logs."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.every = epochs, max(1, epochs // 10)

    def start(self, history: list[Record]) -> None:
        if history:
            messages().print(f"continuing after epoch {len(history)}")

    def epoch(self, record: Record) -> None:
        if record["epoch"] % self.every == 0:
            parts = [f"epoch {record['epoch']}/{self.epochs}", f"loss {record['loss']:.4f}"]
            messages().print("  ".join(filter(None, [*parts, describe_validation(record)])))


def describe_validation(record: Record) -> str:
    """The validation accuracy, or another metric by its name.

    >>> describe_validation({"epoch": 3, "val_loss": 0.5, "val_accuracy": 0.815})
    'validation 81.5 %'
    >>> describe_validation({"epoch": 3, "val_loss": 0.5, "val_r2": 0.815})
    'validation r2 0.815'
    """
    names = [name for name in record if name.startswith("val_") and name != "val_loss"]
    if not names:
        return ""
    if names == ["val_accuracy"]:
        return f"validation {percent(record['val_accuracy'])}"
    name = next(name for name in names if name != "val_accuracy")
    return f"validation {name.removeprefix('val_').replace('_', ' ')} {metric_text(name, record[name])}"


class Interrupt:
    """A signal ends the training after the epoch, with a checkpoint; a second one ends it at once.

    Besides Ctrl-C it answers SIGTERM and SIGHUP, where nothing else does: `nohup` ignores one, and where torchrun
    started several processes, SIGTERM means that another is lost.

    Attributes:
        signal: the first signal that came, or None.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.signal: signal.Signals | None = None
        self.silent = silent

    def __enter__(self) -> Interrupt:
        free = [each for each in POLITE if signal.getsignal(each) is signal.SIG_DFL]
        self.before: dict[signal.Signals, Any] = {
            each: signal.signal(each, self._receive) for each in (signal.SIGINT, *free)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self.before.items():
            signal.signal(each, handler)

    @property
    def exit_code(self) -> int:
        """128 and the number of the signal, as shells have it; without one, as after Ctrl-C."""
        return 128 + (self.signal or signal.SIGINT)

    def start(self, history: list[Record]) -> None:
        """Nothing to do yet."""

    def epoch(self, record: Record) -> bool:
        return self.signal is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        again = "Ctrl-C" if self.signal is signal.SIGINT else self.signal.name
        messages(silent=self.silent).print(f"stopping after this epoch; {again} again stops at once")


POLITE = [each for name in ("SIGTERM", "SIGHUP") if (each := getattr(signal, name, None)) is not None]  # not on Windows
