"""Rank 0 beats while it works, and not while it waits for what never comes; the others wait as long as it beats."""

import threading
import time
from collections.abc import Callable

import pytest
import torch.distributed as dist

from gpnn.distributed.heartbeat import KEY, Heartbeat
from gpnn.distributed.launch import is_lost_peer


class Pending:
    """Work that is done when it is told so."""

    def __init__(self) -> None:
        self.done = False

    def is_completed(self) -> bool:
        return self.done


def test_a_busy_process_beats():
    heart = Heartbeat(dist.HashStore(), 0.04)
    with heart.beating():
        busy_until(lambda: heart.store.add(KEY, 0) >= 5)


def test_a_thread_that_works_for_the_main_thread_counts():
    heart = Heartbeat(dist.HashStore(), 0.04)
    thread = threading.Thread(target=busy_until, args=(lambda: heart.store.add(KEY, 0) >= 5,))
    with heart.beating():
        thread.start()
        thread.join()
    assert heart.store.add(KEY, 0) >= 5


def test_a_process_that_waits_for_ever_is_lost():
    heart, caught = Heartbeat(dist.HashStore(), 0.4), []

    def wait() -> None:
        try:
            heart.wait(Pending())
        except RuntimeError as error:
            caught.append(error)

    other = threading.Thread(target=wait)
    with heart.beating():
        other.start()
        other.join()
    assert is_lost_peer(caught[0])
    assert "process 0, which shows no progress for 0.4 s" in str(caught[0])


def test_work_that_ends_is_awaited_while_beats_come():
    heart, work = Heartbeat(dist.HashStore(), 30), Pending()
    threading.Timer(0.05, lambda: setattr(work, "done", True)).start()
    heart.wait(work)


def busy_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            pytest.fail("no beats in a minute")
