"""Where and how kernels execute: the device, threads that share rows, and the precision of products.

Rows are cut into contiguous ranges, and each thread takes the next range until none is left. Inside a range everything
is one thread's own, so that no operation waits for another thread: on busy cores two OpenMP threads that meet after
every operation can be tens of times slower than one. Where the rows are cut depends on their number alone, so that the
number of threads changes no bit of a result. Small pieces of work go to the threads whole.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TypeVar

import torch

from gpnn.storage.read import shorten

Result = TypeVar("Result")

SHARE_ABOVE = 1 << 22  # multiplications; waking a second thread for fewer costs more than it saves
RUNS = 16  # more than there are threads, so that one that is held up leaves runs to the others
FEW_VALUES = 1 << 21  # of states, whose many small operations are done before a second thread has joined in each
AHEAD = 2  # calls per thread that may be done before their turn

_shared = threading.local()  # `busy` inside a thread that works on its share


def share_rows(num_rows: int, work: int, do: Callable[[int, int], Result], *, multiple: int = 1) -> list[Result]:
    """`do(start, stop)` for runs of rows that make up all rows, on torch's number of threads; results by row.

    While it lasts torch itself has one thread; afterwards it has what it had.

    Args:
        num_rows: how many rows there are.
        work: about how many multiplications they take together; few are not shared.
        do: works on rows from `start` up to `stop`.
        multiple: runs start at multiples of it.

    >>> share_rows(5, 0, lambda start, stop: (start, stop))
    [(0, 5)]
    """
    starts = _starts(num_rows, multiple) if work >= SHARE_ABOVE else [0]
    runs = list(zip(starts, [*starts[1:], num_rows]))
    threads = num_threads()
    if threads == 1:
        return [do(*run) for run in runs]
    with one_thread():
        return [do(*runs[0])] if len(runs) == 1 else _share(runs, do, threads)


def share_calls(count: int, do: Callable[[int], Result]) -> Iterator[Result]:
    """`do(0)`, `do(1)`, … up to `count`, in this order, on torch's number of threads, a few ahead of the one taken.

    Until the last is taken torch itself has one thread.

    >>> list(share_calls(3, lambda number: number * number))
    [0, 1, 4]
    """
    threads = num_threads()
    if threads == 1 or count < 2:
        yield from map(do, range(count))
        return
    waiting: deque[Future[Result]] = deque()
    call = _alone(do)
    with one_thread():
        try:
            for number in range(count):
                waiting.append(_pool(os.getpid(), threads).submit(call, number))
                if len(waiting) > AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            wait([future for future in waiting if not future.cancel()])  # none outlives the arrays that it works on


@contextmanager
def one_thread(num_values: int = 0) -> Iterator[None]:
    """Inside, torch has one thread, unless there are many values to compute; afterwards it has what it had.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    threads = torch.get_num_threads()
    if num_values > FEW_VALUES:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def num_threads() -> int:
    """Threads that work can be shared between: torch's, or one inside a share."""
    return 1 if getattr(_shared, "busy", False) else torch.get_num_threads()


def _starts(num_rows: int, multiple: int) -> list[int]:
    size = max(1, -(-num_rows // (RUNS * multiple))) * multiple
    return list(range(0, max(num_rows, 1), size))


def _share(runs: list[tuple[int, int]], do: Callable[[int, int], Result], threads: int) -> list[Result]:
    """The calling thread waits: each of the pool's threads keeps its own buffers warm between runs."""
    call = _alone(do)
    futures = [_pool(os.getpid(), threads).submit(call, *run) for run in runs]
    wait(futures)
    return [future.result() for future in futures]


def _alone(do: Callable[..., Result]) -> Callable[..., Result]:
    """`do` as a thread of the pool calls it: without gradients, in the caller's inference mode, sharing nothing."""
    inference = torch.is_inference_mode_enabled()

    def call(*arguments: int) -> Result:
        _shared.busy = True
        try:
            with torch.inference_mode(inference), torch.no_grad():  # both are a thread's own
                return do(*arguments)
        finally:
            _shared.busy = False

    return call


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: one that was forked has its parent's pool without the threads in it.

    Each sets torch to one thread for itself. The caller's setting holds for a new thread only from the first operation
    that torch itself runs in parallel; products before it would start threads of their own.
    """
    return ThreadPoolExecutor(
        threads, thread_name_prefix="gpnn-kernel", initializer=torch.set_num_threads, initargs=(1,)
    )


@contextmanager
def float32_products(precision: str | None) -> Iterator[None]:
    """Inside, products may round their factors as :func:`torch.set_float32_matmul_precision` has it; None: as before.

    >>> with float32_products("high"):
    ...     torch.get_float32_matmul_precision()
    'high'
    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    if precision is None:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@cache
def has_bf16_products() -> bool:
    """Whether this CPU multiplies bfloat16 numbers itself; where it does not, float32 products are the faster ones."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def choose_device(name: str = "auto") -> torch.device:
    """ "auto" is the GPU where there is one, else the CPU; other names are torch's own.

    Raises:
        ValueError: for a name that is no device, or a device that is not here.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"`device` must be auto, cpu, cuda or cuda:N. Got {shorten(name)}.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"`device` must be here: this machine has {torch.cuda.device_count()} GPUs. Got {name!r}.")
    return device


def make_deterministic() -> None:
    """Let torch use only operations that give the same bits each time, as ours do; for the whole process.

    An operation of the GPU that has no such form raises a RuntimeError that names it.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it at its first product
    torch.use_deterministic_algorithms(True)


def choose_threads(num_nodes: int, hidden_channels: int, available: int) -> int:
    """One thread where states have fewer than 2²⁰ entries, else all.

    Small states gain nothing from a second thread, and on busy cores they lose several times over.

    >>> choose_threads(1797, 64, 8), choose_threads(1_000_000, 64, 8)
    (1, 8)
    """
    return available if num_nodes * hidden_channels >= 1 << 20 else 1
