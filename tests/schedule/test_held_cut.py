import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.schedule import Phase, Schedule, broadcast, draw_schedule, held_cut, synchronous
from gpnn.schedule.draw import CUT, HELD
from tests.oracle.reach import known_by_step, step_costs
from tests.oracle.run_schedule import run_schedule
from tests.oracle.small_graphs import chain, graphs, partitioned_graphs


def test_chain_of_four_in_two_subgraphs():
    schedule = held_cut(chain(4), [0, 0, 1, 1], rounds=3, intra=2)
    (phase,) = schedule.rounds[0]
    assert (phase.kind, phase.repeat, phase.closing) == ("held", 2, False)
    assert [(e.tolist(), n.tolist()) for e, n in phase.blocks()] == [([0, 3], [0, 1]), ([2, 5], [2, 3])]
    assert (phase.held.tolist(), phase.held_ptr.tolist()) == ([4, 1], [0, 1, 2])  # 2 → 1, then 1 → 2
    assert (schedule.num_messages, schedule.num_updates) == (3 * (2 * 4 + 2), 3 * 2 * 4)


@settings(max_examples=80, deadline=None)
@given(case=partitioned_graphs(), intra=st.integers(1, 3))
def test_inside_edges_send_in_every_step_and_cut_edges_are_held(case, intra):
    graph, labels = case
    (phase,) = held_cut(graph, labels, rounds=1, intra=intra).rounds[0]
    crosses = [labels[u] != labels[v] for u, v in zip(graph.src.tolist(), graph.dst.tolist())]
    held = [] if phase.held is None else phase.held.tolist()
    assert sorted(phase.edges.tolist()) == [edge for edge, cut in enumerate(crosses) if not cut]
    assert sorted(held) == [edge for edge, cut in enumerate(crosses) if cut]
    assert sorted(phase.nodes.tolist()) == list(range(graph.num_nodes))
    assert phase.num_messages == intra * len(phase.edges) + len(held)


@settings(max_examples=40, deadline=None)
@given(case=partitioned_graphs(), rounds=st.integers(1, 3))
def test_one_step_per_round_is_synchronous(case, rounds):
    graph, labels = case
    once, plain = held_cut(graph, labels, rounds, intra=1), synchronous(graph, rounds)
    assert (once.num_messages, once.num_updates) == (plain.num_messages, plain.num_updates)
    state = np.linspace(-1, 1, graph.num_nodes)
    assert np.allclose(run_schedule(once, state), run_schedule(plain, state), rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), rounds=st.integers(1, 2), intra=st.integers(1, 3))
def test_one_subgraph_is_rounds_times_intra_synchronous_steps(graph, rounds, intra):
    one, plain = held_cut(graph, [0] * graph.num_nodes, rounds, intra), synchronous(graph, rounds * intra)
    assert (one.num_steps, one.num_messages, one.num_updates) == (
        plain.num_steps,
        plain.num_messages,
        plain.num_updates,
    )
    state = np.linspace(-1, 1, graph.num_nodes)
    assert np.array_equal(run_schedule(one, state), run_schedule(plain, state))


@settings(max_examples=60, deadline=None)
@given(case=partitioned_graphs(), intra=st.integers(1, 3))
def test_broadcast_agrees_with_the_oracle(case, intra):
    graph, labels = case
    schedule = held_cut(graph, labels, rounds=2, intra=intra)
    history, costs = known_by_step(schedule), step_costs(schedule)
    reach = broadcast(graph, schedule)
    if graph.num_nodes > 1:
        pairs = sum(len(sources) - 1 for sources in history[-1])
        assert reach.coverage == pytest.approx(pairs / (graph.num_nodes * (graph.num_nodes - 1)))
    if reach.solved:
        steps = next(step for step, known in enumerate(history) if sum(map(len, known)) == graph.num_nodes**2)
        assert (reach.num_steps, reach.num_messages) == (steps, sum(messages for messages, _ in costs[:steps]))
    else:
        assert reach.num_messages == schedule.num_messages


def test_the_cut_is_crossed_once_per_round():
    reach = broadcast(chain(6), held_cut(chain(6), [0, 0, 0, 1, 1, 1], rounds=3, intra=3))
    assert (reach.solved, reach.num_rounds, reach.num_steps) == (True, 2, 6)
    assert reach.num_messages == 2 * (3 * 8 + 2)


def test_virtual_nodes_follow_the_held_phase():
    schedule = held_cut(chain(4), [0, 0, 1, 1], rounds=1, intra=2, virtual="subgraph")
    assert [phase.kind for phase in schedule.rounds[0]] == ["held", "gather", "scatter"]
    assert schedule.num_virtual == 2


def test_held_messages_have_a_colour_of_their_own():
    picture = draw_schedule(held_cut(chain(6), [0, 0, 0, 1, 1, 1], rounds=2, intra=2))
    assert "held × 2" in picture
    assert "8 messages and 2 held, 6 updates per step" in picture
    assert picture.count(f'fill="{HELD}"') == 3  # two arrow heads, and one in the key
    assert CUT not in picture


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": [0, 1]}, "`part` must label each of the 3 nodes. Got 2 labels"),
        ({"part": [0, 0, 0], "intra": 0}, "`intra` must be an integer of at least 1. Got 0"),
        ({"part": [0, 0, 0], "virtual": "node"}, "`virtual` must be one of None, graph, subgraph. Got 'node'"),
    ],
)
def test_names_the_users_mistake(options, message):
    with pytest.raises(ValueError, match=message):
        held_cut(chain(3), **options)


def phase(**held):
    return Phase(
        torch.tensor([0, 2]),
        torch.tensor([0, 1, 2]),
        2,
        "own",
        torch.tensor([0, 1, 2]),
        torch.tensor([0, 2, 3]),
        **held,
    )


@pytest.mark.parametrize(
    ("held", "pointers", "message"),
    [
        ([1], None, "`held_ptr` must be given where a phase with blocks holds edges"),
        (None, [0, 0, 0], "`held_ptr` must be given where a phase with blocks holds edges"),
        ([1], [0, 0], "`edge_ptr`, `node_ptr` and `held_ptr` must be equally long. Got 3, 3 and 2"),
        ([1], [0, 0, 2], "`held_ptr` must rise from 0 to 1"),
        ([9], [0, 0, 1], "`held` must lie from 0 to 3. Got 9"),
        ([1], [0, 1, 1], "A held edge must end in a node that its block updates. Edge 1 does not"),
    ],
)
def test_a_phase_checks_what_it_holds(held, pointers, message):
    graph = Graph([0, 1, 2, 3], [1, 2, 2, 2], num_nodes=4)  # edge 1 leads into the second block
    given = {"held": held, "held_ptr": pointers}
    with pytest.raises(ValueError, match=message):
        Schedule(graph, ((phase(**{name: v if v is None else torch.tensor(v) for name, v in given.items()}),),))
