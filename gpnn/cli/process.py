"""What holds for this process: its group, signals, what it prints when another is lost, its threads and determinism."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from gpnn.cli.errors import FAILED, USER_MISTAKE
from gpnn.cli.show import messages
from gpnn.progress import Progress

if TYPE_CHECKING:
    from gpnn.build import Begun
    from gpnn.distributed import ProcessGroup
    from gpnn.distributed.launch import Launch, Processes
    from gpnn.train.fit import Record


T = TypeVar("T")


@dataclass
class Launched:
    """The processes that torchrun started, or this one alone.

    Attributes:
        processes: all of them.
        run: the run folder, once it is known: how to continue is printed where a process is lost.
    """

    processes: Processes
    run: Path | None = None

    @property
    def leads(self) -> bool:
        """Whether this process prints and writes."""
        return self.processes.group.rank == 0

    @property
    def resume(self) -> str:
        """The command that continues the run."""
        return f"{'torchrun … -m ' if self.processes.group.size > 1 else ''}gpnn train --resume {self.run}"

    def on_rank0(self, make: Callable[[], T]) -> T:
        """What `make` returns in rank 0, which JSON must hold; collective."""
        return self.processes.group.run_on_rank0(make)


@contextmanager
def launched(timeout: float) -> Iterator[Launched]:
    """The processes of this command. One that fails prints its sentence; one that is lost ends the others.

    Args:
        timeout: seconds after which a process that does not answer counts as lost.
    """
    from gpnn.distributed import RankFailed
    from gpnn.distributed.launch import Launch, join

    launch = Launch.from_environment() or Launch()
    if timeout <= 0:
        if launch.rank:  # rank 0 prints it
            raise typer.Exit(USER_MISTAKE)
        raise ValueError(f"`--timeout` must be more than 0 seconds. Got {timeout:g}.")
    with _losses(launch, timeout) as lost:
        lost.append(Launched(join(launch, timeout)))
        try:
            check_command(sys.argv[1:], lost[0].processes.group)
            yield lost[0]
        except RankFailed:
            raise typer.Exit(USER_MISTAKE) from None


def load_library(what: str, *, silent: bool) -> None:
    """Import what takes seconds, and show at once that something happens: `what`."""
    if "torch" in sys.modules:
        return
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # states are large, blocks are not
    if not silent and not sys.stderr.isatty():
        typer.echo(what, err=True)
    with Progress(what, silent=silent):
        import gpnn.build  # noqa: F401


def leads_by_name() -> bool:
    """Whether this process prints and writes, by what torchrun set, before its group is joined."""
    return os.environ.get("RANK", "0") == "0"


def check_command(words: list[str], group: ProcessGroup) -> None:
    """Raise ValueError unless all processes were started with the same words; collective."""
    import torch

    digest = hashlib.sha256(json.dumps(words).encode()).digest()
    digests = group.all_gather(torch.tensor(list(digest), dtype=torch.uint8))
    others = [rank for rank, each in enumerate(digests) if not torch.equal(each, digests[0])]

    def refuse() -> None:
        if others:
            raise ValueError(f"All processes must be started with one command. Got another in process {others[0]}.")

    group.run_on_rank0(refuse)


@contextmanager
def _losses(launch: Launch, timeout: float) -> Iterator[list[Launched]]:
    """Print one sentence and end, when another process is lost or torchrun ends this one because of it."""
    import torch.distributed as dist

    from gpnn.distributed.launch import is_lost_peer

    begun: list[Launched] = []

    def end(what: str) -> NoReturn:
        goes_on = f" Continue with: {begun[0].resume}" if begun and begun[0].run is not None else ""
        typer.echo(f"gpnn: process {launch.rank} of {launch.size} {what}.{goes_on}", err=True)
        sys.stderr.flush()
        os._exit(FAILED)  # threads of the lost connection would keep an ordinary exit waiting

    def terminate(number: int, frame: FrameType | None) -> None:
        end("received SIGTERM, because another one ended or from outside")

    if launch.size == 1:
        yield begun
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield begun
    except RuntimeError as error:
        if not is_lost_peer(error):
            raise
        end(f"lost another one, which ended or did not answer within {timeout:g} seconds")
    finally:
        signal.signal(signal.SIGTERM, before)
        if dist.is_initialized():
            dist.destroy_process_group()


def set_process(begun: Begun) -> None:
    """Set what the configuration has for this process, alone or one of several.

    Threads are those that were given, or that suit the size of what the process holds; OMP_NUM_THREADS, which torchrun
    sets, counts before that.
    """
    import torch

    from gpnn.kernels.execution import choose_threads, make_deterministic

    if begun.config.deterministic:
        make_deterministic()
    threads = begun.config.threads
    if threads == "auto":
        if "OMP_NUM_THREADS" in os.environ:
            return
        width = int(begun.config.model.hidden_channels)
        threads = choose_threads(begun.data.num_nodes, width, torch.get_num_threads())
    torch.set_num_threads(threads)


class Interrupt:
    """A signal ends the training after the epoch, with a checkpoint; a second one, before or after it, ends at once.

    One that comes before it is remembered: compiled code may swallow the KeyboardInterrupt that it raises.

    Besides Ctrl-C it handles SIGTERM and SIGHUP, where nothing else does: `nohup` ignores one, and where torchrun
    started several processes, SIGTERM means that another is lost.

    Attributes:
        signal: the first signal that came, or None.
        trains: whether there are epochs to end after.
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
