"""A plan is built from the edges that its schedule was made for, or not at all."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn.engine import propagate
from tests.oracle.engine_cases import SCHEDULES, make_cell, make_schedule, multigraph, states
from tests.oracle.sharded_cases import changed_graph_case

CHANGED = "They were changed in place: build schedule and plan again"


def given_data() -> tuple[Data, dict[str, np.ndarray]]:
    """A graph in numpy's memory, which torch does not see change, and that memory."""
    graph = multigraph()
    assert graph.edge_type is not None
    assert graph.edge_weight is not None
    memory = {
        "edge_index": np.stack([graph.src, graph.dst]),
        "edge_type": graph.edge_type.numpy().copy(),
        "edge_weight": graph.edge_weight.numpy().copy(),
    }
    tensors = {name: torch.from_numpy(values) for name, values in memory.items()}
    return Data(num_nodes=graph.num_nodes, **tensors), memory


def flip(memory: dict[str, np.ndarray]) -> None:
    memory["edge_index"][:] = memory["edge_index"][::-1].copy()


def shorten(memory: dict[str, np.ndarray]) -> None:
    memory["edge_index"][1, 4] = (memory["edge_index"][1, 4] + 1) % 9


def reorder(memory: dict[str, np.ndarray]) -> None:
    for values in memory.values():
        values[..., [0, 7]] = values[..., [7, 0]]


def retype(memory: dict[str, np.ndarray]) -> None:
    memory["edge_type"][3] = (memory["edge_type"][3] + 1) % 3


def reweigh(memory: dict[str, np.ndarray]) -> None:
    memory["edge_weight"] *= 2


CHANGES = [flip, shorten, reorder, retype, reweigh]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_a_change_before_the_first_pass_is_refused(change: Callable, runner: str) -> None:
    data, memory = given_data()
    plan = gpnn.lower(data, make_schedule("partitioned", gpnn.Graph.from_data(data)))
    change(memory)
    for first in (lambda: propagate(make_cell(), plan, states(), runner=runner), lambda: plan.build(runner)):
        with pytest.raises(ValueError, match=CHANGED):
            first()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_before_lowering_is_refused(change: Callable) -> None:
    data, memory = given_data()
    schedule = make_schedule("partitioned", gpnn.Graph.from_data(data))
    change(memory)
    with pytest.raises(ValueError, match=CHANGED):
        gpnn.lower(data, schedule)


@pytest.mark.parametrize("name", SCHEDULES)
def test_under_every_schedule(name: str) -> None:
    """Virtual nodes need a graph of their own, a copy, which nobody can change; all others share the user's memory."""
    data, memory = given_data()
    plan = gpnn.lower(data, make_schedule(name, gpnn.Graph.from_data(data)))
    original, _ = given_data()
    expected = propagate(
        make_cell(), gpnn.lower(original, make_schedule(name, gpnn.Graph.from_data(original))), states()
    )
    shorten(memory)
    if plan.num_virtual:
        assert torch.equal(propagate(make_cell(), plan, states()), expected)
    else:
        with pytest.raises(ValueError, match=CHANGED):
            propagate(make_cell(), plan, states())


def test_a_torch_write_is_seen_like_any_other() -> None:
    data, _ = given_data()
    plan = gpnn.lower(data, make_schedule("partitioned", gpnn.Graph.from_data(data)))
    data.edge_index[0, 0] = (data.edge_index[0, 0] + 1) % 9
    with pytest.raises(ValueError, match=CHANGED):
        propagate(make_cell(), plan, states())


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_a_plan_that_ran_holds_its_own_arrays(runner: str) -> None:
    data, memory = given_data()
    plan = gpnn.lower(data, make_schedule("partitioned", gpnn.Graph.from_data(data)))
    built = plan.build(runner)
    before = propagate(make_cell(), plan, states(), runner=runner)
    flip(memory)
    assert torch.equal(propagate(make_cell(), plan, states(), runner=runner), before)
    assert torch.equal(propagate(make_cell(), built, states(), runner=runner), before)


def test_several_processes_hold_their_own_arrays(processes) -> None:  # type: ignore[no-untyped-def]
    assert all(processes(changed_graph_case, size=2))
