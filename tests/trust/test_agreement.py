"""The bounds of the committed table of agreement: some cells in the suite, all of them and two processes in `slow`."""

from dataclasses import replace

import pytest
import torch

from benchmarks.agreement import CELLS, CPU, CUDA, SCHEDULES, Way, errors, run_way

SOME = ["linear", "gru", "mlp, min"]


@pytest.fixture(scope="module", params=SCHEDULES)
def schedule(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def reference(schedule: str) -> dict[str, list[torch.Tensor]]:
    return run_way(Way("reference", dtype=torch.float64, schedule=schedule), CELLS)


def check(way: Way, schedule: str, names: list[str], reference: dict[str, list[torch.Tensor]]) -> None:
    for name, found in run_way(replace(way, schedule=schedule), names).items():
        assert way.holds(name, *errors(found, reference[name])), (name, errors(found, reference[name]))


@pytest.mark.parametrize("way", [way for way in CPU if way.runner != "sharded"], ids=lambda way: way.name)
def test_bounds_hold(way: Way, schedule: str, reference: dict[str, list[torch.Tensor]]) -> None:
    check(way, schedule, SOME, reference)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("way", CUDA, ids=lambda way: way.name)
def test_bounds_hold_on_a_gpu(way: Way, schedule: str, reference: dict[str, list[torch.Tensor]]) -> None:
    check(way, schedule, list(CELLS), reference)


@pytest.mark.slow
@pytest.mark.parametrize("way", CPU, ids=lambda way: way.name)
def test_bounds_hold_for_every_cell(way: Way, schedule: str, reference: dict[str, list[torch.Tensor]]) -> None:
    check(way, schedule, list(CELLS), reference)


def test_a_wrong_number_is_out_of_bounds(reference: dict[str, list[torch.Tensor]]) -> None:
    """One part in a thousand of one gradient is found."""
    wrong = [each.clone() for each in reference["gru"]]
    wrong[-1] *= 1.001
    assert not Way("fused").holds("gru", *errors(wrong, reference["gru"]))
