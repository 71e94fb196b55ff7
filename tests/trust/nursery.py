"""Commands of gpnn in processes that are cheap to start and may be killed: forks of one that has imported all."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.oracle.dying import die_after

FILE_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate")
context = get_context("forkserver")
context.set_forkserver_preload(["tests.trust.preload"])


def start(words: list[str], folder: Path, die_at: int = 0, die_after: int = 0) -> ForkServerProcess:
    """`gpnn WORDS` in `folder`; what it prints goes to `output.txt` beside the folder.

    Args:
        die_at: kill the process in its n-th act on a file of the folder; 0 lets it live.
        die_after: kill it after this epoch of a training; 0 lets it live.
    """
    process = context.Process(target=_command, args=(list(map(str, words)), str(folder), die_at, die_after))
    process.start()
    return process


def run(words: list[str], folder: Path) -> str:
    """What `gpnn WORDS` printed, when it ended well."""
    process = start(words, folder)
    process.join()
    output = (folder.parent / "output.txt").read_text()
    assert process.exitcode == 0, output
    return output


def kill_when(process: ForkServerProcess, moment: Callable[[], bool], watch: Callable[[], None]) -> bool:
    """Call `watch` again and again until `moment` has come, then kill the process; whether it was still alive."""
    while process.is_alive() and not moment():
        began = time.process_time()
        watch()
        time.sleep(0.002 + 2 * (time.process_time() - began))  # most of the time is the process's
    killed = process.is_alive()
    process.kill()
    process.join()
    watch()
    return killed


def after(seconds: float) -> Callable[[], bool]:
    """The moment so many seconds from now."""
    began = time.monotonic()
    return lambda: time.monotonic() - began >= seconds


def cpu_seconds(process: ForkServerProcess) -> float:
    """Seconds of the processor that a process has taken; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def list_acts(words: list[str], folder: Path) -> list[str]:
    """What `gpnn WORDS` does to files of the folder, in order: the event and the path in the folder."""
    process = start(words, folder, die_at=-1)
    process.join()
    assert process.exitcode == 0, (folder.parent / "output.txt").read_text()
    return (folder.parent / "acts.txt").read_text().splitlines()


def count_acts(words: list[str], folder: Path) -> int:
    """How many acts on files of the folder `gpnn WORDS` takes."""
    return len(list_acts(words, folder))


def _command(words: list[str], folder: str, die_at: int, epoch: int) -> None:
    os.chdir(folder)
    beside = Path(folder).parent
    file = os.open(beside / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    counter = _Counter(folder, die_at)
    if die_at:
        sys.addaudithook(counter)
    if epoch:
        die_after(0, epoch)
    from gpnn.cli import app

    try:
        app(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if die_at < 0:
            counter.die_at = 0
            (beside / "acts.txt").write_text("\n".join(counter.acts))


class _Counter:
    """An audit hook that notes the acts on files of a folder and kills the process in the n-th."""

    def __init__(self, folder: str, die_at: int) -> None:
        self.folder, self.die_at = folder, die_at
        self.acts: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and isinstance(arguments[0], str | bytes | os.PathLike):
            path = Path(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100 `..` leads out: numba reads sources so
            if path.is_relative_to(self.folder):
                self.acts.append(f"{event} {path.relative_to(self.folder)}")
                if len(self.acts) == self.die_at:
                    os.kill(os.getpid(), signal.SIGKILL)
