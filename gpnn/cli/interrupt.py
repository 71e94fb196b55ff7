"""Interrupt: a signal ends a training after the epoch, and whatever comes before it at once."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING, Any

from gpnn.cli.show import messages

if TYPE_CHECKING:
    from gpnn.train.fit import Record


class Interrupt:
    """A signal ends the training after the epoch, with a checkpoint; a second one, or one before it, ends it at once.

    One that comes before it is remembered: compiled code may swallow the KeyboardInterrupt that it raises.

    Besides Ctrl-C it answers SIGTERM and SIGHUP, where nothing else does: `nohup` ignores one, and where torchrun
    started several processes, SIGTERM means that another is lost.

    Attributes:
        signal: the first signal that came, or None.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.signal: signal.Signals | None = None
        self.silent, self.trains = silent, False

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

    def start(self, history: list[Record]) -> bool:
        self.trains = True
        return self.signal is not None

    def epoch(self, record: Record) -> bool:
        return self.signal is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        before, self.signal = self.signal, self.signal or signal.Signals(number)
        if before is not None or not self.trains:
            raise KeyboardInterrupt
        again = "Ctrl-C" if self.signal is signal.SIGINT else self.signal.name
        messages(silent=self.silent).print(f"stopping after this epoch; {again} again stops at once")


POLITE = [each for name in ("SIGTERM", "SIGHUP") if (each := getattr(signal, name, None)) is not None]  # not on Windows
