"""The cost model counts what the engine counts."""

import pytest

from benchmarks.distributed_cost import Machine, Workload, estimate

WORK = Workload(1000, 8000, 16, rounds=2, intra=3, cut=1, cut_edges=0.25, cut_nodes=0.5, passes=2, parameters=100)
MACHINE = Machine(messages=1e6, updates=1e5, bandwidth=1e7, latency=0.001, edge_bytes=10, kept=2)


def test_one_process_by_hand():
    """2 rounds of (3 · 6000 + 2000) messages and (3 + ½) · 1000 updates, in 16 channels and two passes."""
    cost = estimate(WORK, MACHINE, 1, halo=0)
    assert cost.compute == pytest.approx(2 * 16 * (2 * 20_000 / 1e6 + 2 * 3500 / 1e5))
    assert (cost.sent, cost.exchange, cost.reduce) == (0, 0, 0)
    assert cost.memory == pytest.approx(10 * 8000 + 64 * (2 * 2 * 7000 + 2 * 1000))


def test_four_processes_by_hand():
    """100 halo rows of 64 bytes, two passes of two cut steps, there and back."""
    cost = estimate(WORK, MACHINE, 4, halo=100)
    assert cost.sent == 2 * 2 * 2 * 100 * 64
    assert cost.synchronous == 4 * cost.sent  # T_S + T_C = 4 steps per round for one that is exchanged
    assert cost.compute == pytest.approx(estimate(WORK, MACHINE, 1, halo=0).compute / 4)
    assert cost.exchange == pytest.approx(cost.sent / 1e7 + 8 * 0.001)
    assert cost.reduce == pytest.approx(2 * 400 * 3 / 4 / 1e7 + 0.001)
    assert cost.overlapped < cost.seconds


def test_bytes_are_those_that_training_counts(processes):
    """The model's bytes are the engine's, given the halo of the busier process."""
    import gpnn
    from gpnn.distributed import NodeOrder, ShardBuilder
    from tests.oracle.training_cases import planted, train

    data = planted()
    graph = gpnn.Graph.from_data(data)
    order = NodeOrder.of(graph, gpnn.partition_graph(data, 6, seed=3), 2)
    halo = [len(ShardBuilder(graph, order).build(rank).halo) for rank in (0, 1)]
    options = {"cell": "gru", "recipe": {"epochs": 2, "check_every": 3, "passes": 1, "consistency": 0.0}}
    history, _, _ = processes(train, options, {}, size=2)[0]
    work = Workload(60, 360, 8, rounds=2, intra=2, cut=1, cut_edges=0.5, cut_nodes=1.0, state_bytes=8)
    # one way a process sends its rows, the other way the gradients of those that it received
    assert history[0]["sent_bytes"] == estimate(work, MACHINE, 2, halo=sum(halo) / 2).sent
