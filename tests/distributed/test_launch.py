"""Processes of one start agree on a name that those of an earlier start did not have."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist

from gpnn.distributed.launch import Launch, agree, is_lost_peer


def meet_all(store, size):
    with ThreadPoolExecutor(size) as pool:
        names = list(pool.map(lambda rank: agree(store, rank, size, timedelta(seconds=10)), range(size)))
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
