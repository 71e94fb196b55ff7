"""Processes of one start agree on a name that those of an earlier start did not have."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist

from gpnn.distributed.launch import KEY, Keepalive, Launch, agree, is_lost_peer


def meet_all(store, size):
    with ThreadPoolExecutor(size) as pool:
        names = list(pool.map(lambda rank: agree(store, rank, size, timedelta(minutes=20)), range(size)))
    assert len(set(names)) == 1
    return names[0]


def test_each_start_has_its_own_name():
    """The store remembers the first start; the second, and one of another size, meet among themselves."""
    store = dist.HashStore()
    assert len({meet_all(store, 3), meet_all(store, 3), meet_all(store, 2)}) == 3


def test_a_process_alone_does_not_take_old_words_for_new_ones():
    store = dist.HashStore()
    meet_all(store, 2)
    with pytest.raises(RuntimeError, match="Timed out waiting for 2 processes") as caught:
        agree(store, 0, 2, timedelta(seconds=0.2))
    assert is_lost_peer(caught.value)


def test_what_torchrun_says():
    assert Launch.from_environment({}) is None
    told = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "host", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    told |= {"TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "5"}
    assert Launch.from_environment(told) == Launch(3, 4, 1, 2, 1, 5)


def test_errors_that_are_not_of_another_process():
    assert not is_lost_peer(ValueError("Connection closed by peer"))
    assert not is_lost_peer(RuntimeError("shapes do not fit"))


class Pending:
    """Work that is done when it is told so."""

    def __init__(self) -> None:
        self.done = False

    def is_completed(self) -> bool:
        return self.done


def test_a_busy_process_beats():
    heart = Keepalive(dist.HashStore(), 0.04)
    with heart.beating():
        busy_until(lambda: heart.store.add(KEY, 0) >= 5)


def test_a_thread_that_works_for_the_main_thread_counts():
    heart = Keepalive(dist.HashStore(), 0.04)
    thread = threading.Thread(target=busy_until, args=(lambda: heart.store.add(KEY, 0) >= 5,))
    with heart.beating():
        thread.start()
        thread.join()
    assert heart.store.add(KEY, 0) >= 5


def test_a_process_that_waits_for_ever_is_lost():
    heart, caught = Keepalive(dist.HashStore(), 0.4), []

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
    heart, work = Keepalive(dist.HashStore(), 1200), Pending()
    threading.Timer(0.05, lambda: setattr(work, "done", True)).start()
    heart.wait(work)


def busy_until(condition: Callable[[], bool]) -> None:
    while not condition():
        pass
