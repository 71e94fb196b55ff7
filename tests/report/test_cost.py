from dataclasses import replace

import pytest
import torch

import gpnn
from gpnn.report.cost import OUTSIDE, Cost, measure_cost, time_memory


@pytest.fixture(params=["fused", "streamed"])
def case(request):
    data = gpnn.load_dataset("planted", num_nodes=80, num_classes=3, num_features=10, label_rate=0.3)
    part = gpnn.partition_graph(data, 4)
    plan = gpnn.lower(data, gpnn.schedule.partitioned(data, part, rounds=2, intra=2))
    return gpnn.nn.GPNN(10, 8, 3, runner=request.param, dropout=0.5, drop_node=0.5), data.x, plan


def test_every_kind_of_phase_takes_time_and_keeps_something(case):
    cost = measure_cost(*case)
    assert set(cost.seconds) == {OUTSIDE, "inside", "cut"}
    assert all(seconds >= 0 for seconds in cost.seconds.values())
    assert cost.backward > 0
    assert cost.peak > 10**7
    assert sum(cost.kept.values()) > 80 * 8 * 4  # at least one state of every node


def test_nothing_is_left_changed(case):
    model, x, plan = case
    model.eval()
    runner, state = model.runner, torch.get_rng_state()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    measure_cost(model, x, plan)
    assert model.runner is runner
    assert not model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_encoder_and_head_are_measured_as_the_runner_has_them(case):
    """A pass that kept more than those of the training could fail where the training did not."""
    model, x, plan = case
    runner, kept = model.runner, measure_cost(model, x, plan).kept.get(OUTSIDE, 0)
    model.runner = "fused"
    everything = measure_cost(model, x, plan).kept[OUTSIDE]
    assert kept == everything if runner == "fused" else kept < everything


def test_deeper_schedules_keep_more():
    data = gpnn.load_dataset("planted", num_nodes=80, num_classes=3, num_features=10, label_rate=0.3)
    model = gpnn.nn.GPNN(10, 8, 3)
    plans = [gpnn.lower(data, gpnn.schedule.synchronous(data, rounds)) for rounds in (1, 4)]
    one, four = (measure_cost(model, data.x, plan).kept["all"] for plan in plans)
    assert four > 2 * one


def test_the_section_shows_what_was_measured(record):
    cost = Cost({OUTSIDE: 0.5, "inside": 0.25}, {"inside": 2**21}, backward=1.0, peak=2**30, device="cpu", threads=1)
    section = time_memory(replace(record, cost=cost))
    rows = dict(section.parts[1].rows)
    assert rows["forward pass"] == "0.75 s"
    assert rows["kept for the backward pass"] == "2.0 MiB"
    assert rows["peak of the process"] == "1.0 GiB"
    assert section.parts[0].views["memory"][0]["x"] == [2.0]
    assert time_memory(replace(record, cost=None)) is None
