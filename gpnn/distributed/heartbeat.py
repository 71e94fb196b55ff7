"""Heartbeat: rank 0 shows through the store that it still works while the other ranks wait for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist

KEY = "gpnn/heartbeat"
LONGEST_PAUSE = 5.0  # seconds between two beats, or two looks at them
BUSY = 0.05  # of a core: more than gloo's threads take while they wait


@dataclass(frozen=True, eq=False)
class Heartbeat:
    """A counter in the store that rank 0 raises as long as it makes progress.

    A process that is stopped, that is gone, or whose main thread waits for something that never comes (a pipe, a file
    system that does not answer) does not raise it.

    Attributes:
        store: shared by the processes.
        timeout: seconds without a beat after which rank 0 counts as lost.
    """

    store: dist.Store
    timeout: float

    @property
    def pause(self) -> float:
        """Seconds from one beat to the next."""
        return min(LONGEST_PAUSE, self.timeout / 4)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Raise the counter beside what the caller does."""
        done = threading.Event()
        thread = threading.Thread(target=self._beat, args=(done,), name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def wait(self, work: dist.Work) -> None:
        """Return when `work`, which rank 0 takes part in, is done.

        Raises:
            RuntimeError: when the counter stands still for `timeout` seconds.
        """
        seen, since, looked, nap = -1, time.monotonic(), 0.0, 0.001
        while not work.is_completed():
            now = time.monotonic()
            if now - looked >= self.pause:
                looked, count = now, self.store.add(KEY, 0)
                if count != seen:
                    seen, since = count, now
            if now - since > self.timeout:
                raise RuntimeError(f"Timed out waiting for process 0, which shows no progress for {self.timeout:g} s.")
            time.sleep(nap)
            nap = min(2 * nap, 0.1)

    def _beat(self, done: threading.Event) -> None:
        slices, used, at = _main_thread_slices(), _seconds_of_others(), time.monotonic()
        with suppress(dist.DistError):  # the store is gone: the main thread finds out itself
            while not done.wait(self.pause):
                before, busy, since = slices, used, at
                slices, used, at = _main_thread_slices(), _seconds_of_others(), time.monotonic()
                if slices is None or slices != before or used - busy > BUSY * (at - since):
                    self.store.add(KEY, 1)


def _seconds_of_others() -> float:
    """Processor time of all threads but the calling one."""
    return time.process_time() - time.thread_time()


def _main_thread_slices() -> int | None:
    """How often the main thread was given a processor: the same number as long as it waits; None where unknown."""
    try:
        return int(Path(f"/proc/self/task/{os.getpid()}/schedstat").read_text().split()[2])
    except (OSError, IndexError, ValueError):
        return None
