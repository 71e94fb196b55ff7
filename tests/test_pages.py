"""Large pages change where a tensor lies, not what it holds; memory is reused, never while a tensor lies in it."""

import ctypes
import gc
import mmap
import multiprocessing
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import gpnn
import gpnn.pipeline
from gpnn import pages
from gpnn.pages import LARGE, PAGE, Pool

MB = 1 << 20
needs_large = pytest.mark.skipif(LARGE is None, reason="the system has no large pages")


@pytest.mark.parametrize("rows", [0, 3, 40_000])
def test_moved_tensors_hold_what_they_held(rows: int) -> None:
    tensor = torch.arange(rows * 64.0).view(rows, 64)
    expected, place = tensor.clone(), tensor.data_ptr()
    pages.move_to_large(tensor)
    assert tensor.equal(expected)
    assert tensor.data_ptr() == place


def test_a_tensor_is_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    advised: list[int | None] = []
    monkeypatch.setattr(pages, "LARGE", 14)
    monkeypatch.setattr(pages, "_advise", lambda tensor, advice: advised.append(advice))
    first, second = torch.zeros(3, 2), torch.zeros(3, 2)
    for tensor in (first, second, first):
        pages.move_to_large(tensor)
    assert advised == [25, 25]


def test_a_system_without_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LARGE", None)
    monkeypatch.setattr(pages, "_libc", lambda: pytest.fail("advised"))
    pages.move_to_large(pages.empty_large(40_000, 64, dtype=torch.float32))


@needs_large
def test_memory_is_used_again() -> None:
    pool = Pool()
    first = pool.empty(10 * MB)
    place = first.data_ptr()
    assert place % PAGE == 0
    del first
    assert pool.idle_bytes == 10 * MB
    assert pool.empty(10 * MB).data_ptr() == place


@needs_large
def test_memory_that_a_view_lies_in_is_not_used_again() -> None:
    pool = Pool()
    first = pool.empty(10 * MB).view(torch.float32)
    first.fill_(1.0)
    view = first[5:7]
    del first
    second = pool.empty(10 * MB)
    second.fill_(7)
    assert view.tolist() == [1.0, 1.0]
    del view, second
    assert pool.idle_bytes == 20 * MB


@needs_large
def test_a_little_longer_memory_serves() -> None:
    pool = Pool()
    place = pool.empty(33 * MB).data_ptr()
    assert pool.empty(31 * MB).data_ptr() == place  # 34 MiB of whole pages
    assert pool.empty(16 * MB).data_ptr() != place  # half of it would be idle


@needs_large
def test_no_more_is_held_than_was_allocated_at_one_time() -> None:
    pool = Pool()
    for size in (10, 20, 40, 80):
        pool.empty(size * MB)
    assert pool.idle_bytes == 80 * MB
    together = [pool.empty(30 * MB), pool.empty(30 * MB)]
    assert pool.idle_bytes <= 20 * MB
    del together
    assert pool.idle_bytes <= 80 * MB


@needs_large
def test_released_memory_is_gone() -> None:
    pool = Pool()
    kept = pool.empty(10 * MB)
    pool.empty(10 * MB)
    pool.release()
    assert pool.idle_bytes == 0
    kept.fill_(3)
    assert int(kept[-1]) == 3


@needs_large
def test_idle_memory_makes_room_where_no_more_may_be_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, room = Pool(), [30 * MB]

    class Bounded(mmap.mmap):
        def __new__(cls, file: int, length: int, **flags: int) -> "Bounded":
            if length > room[0]:
                raise OSError(12, "Cannot allocate memory")
            room[0] -= length
            return super().__new__(cls, file, length, **flags)

        def __del__(self) -> None:
            room[0] += len(self)

    monkeypatch.setattr("gpnn.pages.mmap.mmap", Bounded)
    pool.empty(20 * MB)
    assert len(pool.empty(10 * MB)) == 10 * MB
    with pytest.raises(MemoryError, match="31457280 bytes"):
        pool.empty(30 * MB)


@needs_large
def test_gradients_that_lie_in_the_pool_outlive_the_step() -> None:
    weight = torch.ones(50_000, 64, requires_grad=True)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return pages.empty_large(*x.shape, dtype=x.dtype).copy_(x).mul_(2)

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return pages.empty_large(*grad.shape, dtype=grad.dtype).copy_(grad).mul_(2)

    for _ in range(3):
        Twice.apply(weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.eq(6.0).all()


@needs_large
def test_threads_lend_and_return_at_once() -> None:
    pool, wrong = Pool(), []

    def work(value: int) -> None:
        for _ in range(50):
            tensor = pool.empty(8 * MB)
            tensor[::4096] = value
            if not tensor[::4096].eq(value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    assert pool.idle_bytes <= 4 * 2 * 8 * MB  # a thread's last tensor goes when it has the next


def _sum_in_child(queue) -> None:  # type: ignore[no-untyped-def]
    queue.put(float(pages.empty_large(40_000, 64, dtype=torch.float32).fill_(1.0).sum()))


@needs_large
def test_a_forked_process_has_memory_of_its_own() -> None:
    mine = pages.empty_large(40_000, 64, dtype=torch.float32).fill_(2.0)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_sum_in_child, args=(queue,))
    child.start()
    assert queue.get() == 40_000 * 64
    child.join()
    assert mine.eq(2.0).all()


def test_freed_memory_goes_back_to_the_system() -> None:
    pages.release_pages()
    lies = pages.empty_large(4 * MB, 4, dtype=torch.uint8)
    del lies
    gc.collect()
    pages.return_freed()
    assert pages._pool(pages.os.getpid()).idle_bytes == 0


FAULTS = """
import resource, torch
from gpnn import pages
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.empty(1 << 26, dtype=torch.uint8).fill_(1)  # 16,384 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
with pages.freed_memory_kept():
    kept = min(faults() for _ in range(6))  # an aligned tensor fits where others were once these are joined
    with pages.freed_memory_kept():
        pass
    inside = min(faults() for _ in range(6))
    pages.return_freed()
    print(kept, inside, faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no such options")
@pytest.mark.thorough  # measured memory
def test_what_is_freed_is_kept_or_returned() -> None:
    ended = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    kept, inside, returned = map(int, ended.stdout.split())
    assert max(kept, inside) < returned / 4


def test_what_is_freed_is_kept_inside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[int, int] = {}
    library = SimpleNamespace(mallopt=options.__setitem__)
    monkeypatch.setattr(pages.ctypes, "CDLL", lambda name: library)
    with pages.freed_memory_kept(False):
        assert not options
    with suppress(KeyError), pages.freed_memory_kept():
        with pages.freed_memory_kept():
            pass
        assert options == pages._KEEP
        raise KeyError
    assert options == pages._RETURN


class _Kept:
    """The callback that notes whether what is freed is kept."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def start(self, history: list[dict[str, Any]]) -> None:
        self.seen.append(pages._kept)

    def epoch(self, record: dict[str, Any]) -> None:
        self.seen.append(pages._kept)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no such options")
@pytest.mark.parametrize("keep", [False, True])
def test_a_training_keeps_what_it_frees_while_it_runs(keep: bool) -> None:
    ring = torch.arange(4)
    data = Data(x=torch.eye(4), y=ring % 2, edge_index=torch.stack([ring, ring.roll(1)]), train_mask=ring < 4)
    model, kept = gpnn.nn.GPNN(4, 4, 2), _Kept()
    model.keeps_freed = keep
    for _ in range(2):
        plan = gpnn.lower(gpnn.schedule.synchronous(data, rounds=1))
        gpnn.train.fit(model, data, plan, recipe=gpnn.train.Recipe(epochs=1), callbacks=[kept])
        assert not pages._kept
    assert kept.seen == [keep] * 4


def test_a_small_assembly_may_keep_what_it_frees() -> None:
    ring = torch.arange(4)
    data = Data(x=torch.eye(4), y=ring % 2, edge_index=torch.stack([ring, ring.roll(1)]), train_mask=ring < 4)
    made = gpnn.pipeline.Pipeline(k=1, rounds=1).assemble(data, gpnn.train.Recipe(epochs=1))
    assert made.model.keeps_freed
    assert not pages._kept


def test_an_assembly_that_takes_much_of_the_memory_returns_what_it_frees() -> None:
    ring = torch.arange(4)
    data = Data(x=torch.eye(4), y=ring % 2, edge_index=torch.stack([ring, ring.roll(1)]), train_mask=ring < 4)
    pipeline = gpnn.pipeline.Pipeline(k=1, rounds=1)
    need = pipeline.assemble(data, gpnn.train.Recipe(epochs=1)).engine.estimate.peak
    made = replace(pipeline, memory=2 * need).assemble(data, gpnn.train.Recipe(epochs=1))
    assert not made.model.keeps_freed
