"""Rows shared between threads: every row once, results in order, torch's threads as they were."""

import ctypes
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.kernels.execution import SHARE_ABOVE, _pool, choose_device, num_threads, share_calls, share_rows


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@settings(max_examples=50, deadline=None)
@given(num_rows=st.integers(0, 500), work=st.sampled_from([0, SHARE_ABOVE]), multiple=st.integers(1, 70))
def test_runs_make_up_all_rows(num_rows, work, multiple):
    runs = share_rows(num_rows, work, lambda start, stop: (start, stop), multiple=multiple)
    assert [start for start, _ in runs] == [0, *(stop for _, stop in runs[:-1])]
    assert runs[-1][1] == num_rows
    assert all(start % multiple == 0 for start, _ in runs)


@pytest.mark.usefixtures("two_threads")
def test_torch_has_one_thread_inside_and_its_own_after():
    inside = share_rows(1000, SHARE_ABOVE, lambda start, stop: torch.get_num_threads())
    assert set(inside) == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_comes_through():
    def fail(start: int, stop: int) -> None:
        raise ArithmeticError(start)

    with pytest.raises(ArithmeticError, match="0"):
        share_rows(1000, SHARE_ABOVE, fail)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_calls_come_in_order_and_share_nothing_themselves():
    random = torch.Generator().manual_seed(0)
    pauses = (torch.rand(40, generator=random) / 500).tolist()

    def call(number: int) -> tuple[int, int, list[tuple[int, int]]]:
        time.sleep(pauses[number])
        return number, num_threads(), share_rows(32, SHARE_ABOVE, lambda start, stop: (start, stop))

    inside = share_rows(32, SHARE_ABOVE, lambda start, stop: (start, stop))
    assert list(share_calls(40, call)) == [(number, 1, inside) for number in range(40)]
    assert torch.get_num_threads() == num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_of_a_call_stops_the_others():
    done = []

    def call(number: int) -> None:
        if number == 3:
            raise ArithmeticError(number)
        done.append(number)

    with pytest.raises(ArithmeticError, match="3"):
        list(share_calls(1000, call))
    assert len(done) < 30
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_products_in_a_share_start_no_threads():
    library = ctypes.CDLL(None)
    if not hasattr(library, "omp_get_max_threads"):
        pytest.skip("torch shares its work without OpenMP")
    _pool.cache_clear()  # its threads know what they were told when they started
    counts = share_rows(64, SHARE_ABOVE, lambda start, stop: library.omp_get_max_threads())
    assert len(counts) == 16
    assert set(counts) == {1}


def test_auto_is_what_the_machine_has():
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_mistakes():
    with pytest.raises(ValueError, match=r"`device` must be auto, cpu, cuda or cuda:N. Got 'gpu'"):
        choose_device("gpu")
    with pytest.raises(ValueError, match=r"`device` must be auto, cpu, cuda or cuda:N. Got 'meta'"):
        choose_device("meta")
    with pytest.raises(ValueError, match=r"this machine has \d+ GPUs. Got 'cuda:99'"):
        choose_device("cuda:99")
