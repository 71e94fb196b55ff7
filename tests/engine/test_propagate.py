"""propagate against a slow engine that walks the schedule in numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gpnn
from gpnn.engine import propagate
from gpnn.nn import MESSAGES, UPDATES, CellBank
from gpnn.nn.cell import AGGREGATIONS
from gpnn.schedule import partitioned, synchronous
from tests.oracle.engine_cases import SCHEDULES, make_cell, make_schedule, multigraph, states
from tests.oracle.propagate import walk
from tests.oracle.small_graphs import partitioned_graphs


@pytest.mark.parametrize("name", [*SCHEDULES, "waves", "centrality", "priority"])
def test_every_cell_under_every_schedule_agrees_with_the_oracle(name):
    schedule = make_schedule(name, graph := multigraph())
    plan = gpnn.lower(graph, schedule)
    state = states()
    combinations = [(update, "identity", "mean") for update in UPDATES]
    combinations += [("gru", message, aggregate) for message in MESSAGES for aggregate in AGGREGATIONS]
    for update, message, aggregate in combinations:
        cell = make_cell(update, message, aggregate).eval()
        with torch.no_grad():
            after = propagate(cell, plan, state, collect=True)
        for ours, slow in zip(after, walk(cell, schedule, state.numpy()), strict=True):
            np.testing.assert_allclose(ours.numpy(), slow, atol=1e-10, err_msg=f"{update} {message} {aggregate}")


@pytest.mark.parametrize("name", [*SCHEDULES, "waves", "centrality", "priority"])
@pytest.mark.parametrize("update", ["gru", "linear", "max_plus"])
def test_without_gradients_states_are_overwritten_but_for_those_that_somebody_has(name, update):
    plan = gpnn.lower(graph := multigraph(), make_schedule(name, graph))
    cell, state = make_cell(update).eval(), states()
    wanted = [each.detach() for each in propagate(cell, plan, state, collect=True)]
    with torch.no_grad():
        found = propagate(cell, plan, state, collect=True)
        last = propagate(cell, plan, state)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip([*found, last], [*wanted, wanted[-1]], strict=True))
    assert torch.equal(state, states())


@pytest.mark.parametrize("rule", ["graph", "split", "symmetric"])
def test_normalised_typed_messages_agree_with_the_oracle(rule):
    for name in ("partitioned", "subgraph_memory"):
        schedule = make_schedule(name, graph := multigraph())
        plan = gpnn.lower(graph, schedule, normalization=rule, self_loops=True)
        cell = make_cell("linear", "linear", alpha=0.2)
        after = propagate(cell, plan, states())
        slow = walk(cell, schedule, states().numpy(), rule=rule, self_loops=True)[-1]
        np.testing.assert_allclose(after.detach().numpy(), slow, atol=1e-10)


def test_options_and_shared_cells_agree_with_the_oracle():
    schedule = make_schedule("subgraph_memory", graph := multigraph())
    plan = gpnn.lower(graph, schedule)
    cells = [
        make_cell("gru", reset="before"),
        make_cell("linear", alpha=0.3, teleport="phase"),
        CellBank([make_cell("mlp"), make_cell("gru")]),
        CellBank([make_cell("mlp"), make_cell("gru")], ("inside", "cut")),
    ]
    for cell in cells:
        after = propagate(cell, plan, states()).detach().numpy()
        np.testing.assert_allclose(after, walk(cell, schedule, states().numpy())[-1], atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(case=partitioned_graphs(), update=st.sampled_from(sorted(UPDATES)), aggregate=st.sampled_from(AGGREGATIONS))
def test_drawn_graphs_agree_with_the_oracle(case, update, aggregate):
    graph, labels = case
    schedule = partitioned(graph, labels, rounds=2, intra=2, cut=2)
    cell = make_cell(update, "linear", aggregate, num_edge_types=1).eval()
    state = states(graph.num_nodes)
    after = propagate(cell, gpnn.lower(graph, schedule), state).detach().numpy()
    np.testing.assert_allclose(after, walk(cell, schedule, state.numpy())[-1], atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(case=partitioned_graphs())
def test_one_subgraph_is_synchronous(case):
    graph, _ = case
    cell, state = make_cell(num_edge_types=1), states(graph.num_nodes)
    one = partitioned(graph, [0] * graph.num_nodes, rounds=2, intra=3)
    once = propagate(cell, gpnn.lower(graph, one), state)
    six = propagate(cell, gpnn.lower(graph, synchronous(graph, 6)), state)
    torch.testing.assert_close(once, six, rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(case=partitioned_graphs())
def test_a_subgraph_a_node_is_synchronous_for_receivers(case):
    graph, _ = case
    cell, state = make_cell(num_edge_types=1), states(graph.num_nodes)
    proper = graph.select_edges(graph.src != graph.dst)  # self-loops travel inside, in a phase of their own
    parted = partitioned(proper, range(graph.num_nodes), rounds=1, intra=1, cut=1, update="receivers")
    apart = propagate(cell, gpnn.lower(proper, parted), state)
    together = propagate(cell, gpnn.lower(proper, synchronous(proper, 1)), state)
    receives = proper.in_degree > 0
    torch.testing.assert_close(apart[receives], together[receives], rtol=0, atol=1e-12)
    assert apart[~receives].equal(state[~receives])


def test_states_come_and_go_in_the_users_order():
    """Renaming the nodes renames the result, whatever the partition."""
    graph = multigraph()
    renamed = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    twin = gpnn.Graph(renamed[graph.src], renamed[graph.dst], 10, graph.edge_type, graph.edge_weight)
    labels = torch.tensor([2, 0, 1, 1, 0, 2, 2, 1, 0, 0])
    cell, state = make_cell(), states()
    after = propagate(cell, gpnn.lower(graph, partitioned(graph, labels)), state)
    moved = torch.empty_like(state)
    moved[renamed] = state
    twin_labels = torch.empty_like(labels)
    twin_labels[renamed] = labels
    twin_after = propagate(cell, gpnn.lower(twin, partitioned(twin, twin_labels)), moved)
    torch.testing.assert_close(twin_after[renamed], after, rtol=0, atol=1e-12)


def test_the_initial_state_may_be_another():
    schedule = make_schedule("partitioned", graph := multigraph())
    plan, cell = gpnn.lower(graph, schedule), make_cell("linear", alpha=1.0, teleport="phase")
    elsewhere = states(seed=9)
    for runner in ("fused", "streamed"):
        torch.testing.assert_close(propagate(cell, plan, states(), initial=elsewhere, runner=runner), elsewhere)


def test_a_model_keeps_its_plan_apart_from_its_graph():
    """The same cell runs on two graphs of different sizes."""
    cell = make_cell(num_edge_types=1)
    for size in (3, 8):
        ring = gpnn.Graph(torch.arange(size), (torch.arange(size) + 1) % size, size)
        plan = gpnn.lower(ring, synchronous(ring, 2))
        assert propagate(cell, plan, states(size)).shape == (size, 3)


def test_refuses_what_does_not_fit():
    graph = multigraph()
    plan, cell = gpnn.lower(graph, synchronous(graph)), make_cell()
    with pytest.raises(ValueError, match=r"`runner` must be one of fused, streamed\. Got 'fast'"):
        propagate(cell, plan, states(), runner="fast")
    with pytest.raises(ValueError, match=r"one row for each of the 10 nodes\. Got shape \[9, 3\]"):
        propagate(cell, plan, states(9))
    with pytest.raises(ValueError, match=r"one row for each of the 10 nodes\. Got shape \[10\]"):
        propagate(cell, plan, states()[:, 0])
    with pytest.raises(ValueError, match=r"knows edge types from 0 to 1.*Got type 2"):
        propagate(make_cell(message="linear", num_edge_types=2), plan, states())


def test_states_of_16_bits_with_a_small_range_are_refused(planted, plan):
    model = gpnn.nn.GPNN(planted.x.shape[1], 8, 3).half()
    with pytest.raises(ValueError, match=r"States must be of type float32, float64, bfloat16\. Got float16\."):
        model(planted.x, plan)
