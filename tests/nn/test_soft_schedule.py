"""Soft partitions: their scores, their encoding of the structure, and what they harden to."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

import gpnn
from gpnn import Graph
from gpnn.engine import NORMALIZATIONS, propagate
from gpnn.nn import UPDATES
from gpnn.nn.cell import build_cell, share_cells
from gpnn.nn.soft_schedule import ASSIGNMENTS, SoftSchedule, encode_structure, harden
from gpnn.schedule.partitioned import held_cut_phases, partitioned_phases
from tests.oracle.small_graphs import ring


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_most_probable_subgraph() -> None:
    part = harden(torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.3, 0.5]]))
    assert (part.labels.tolist(), part.num_parts) == ([1, 0, 2], 3)


def test_no_subgraph_is_empty_where_nodes_are_enough() -> None:
    assert sorted(harden(torch.tensor([[0.9, 0.1]] * 3)).sizes.tolist()) == [1, 2]
    assert harden(torch.tensor([[0.1, 0.8, 0.1]] * 2)).sizes.tolist() == [0, 2, 0]


@pytest.mark.parametrize("name", ASSIGNMENTS)
@pytest.mark.parametrize("num_features", [0, 5])
def test_every_node_has_a_score_for_every_subgraph(name: str, num_features: int) -> None:
    structure = encode_structure(ring(6), seeded(), width=4)
    assignment = ASSIGNMENTS[name](structure, num_features, 3, seeded())
    x = torch.rand(6, num_features, generator=seeded()) if num_features else None
    scores = assignment(x)
    assert scores.shape == (6, 3)
    scores.softmax(1).square().sum().backward()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in assignment.parameters())
    assert torch.equal(ASSIGNMENTS[name](structure, num_features, 3, seeded())(x), scores)


def test_neighbours_are_encoded_alike() -> None:
    """Two cliques of six, joined by one edge, and a node of its own."""
    pairs = [(a, b) for start in (0, 6) for a in range(start, start + 6) for b in range(start, a)] + [(5, 6)]
    src, dst = zip(*pairs)
    code = encode_structure(Graph(src, dst, num_nodes=13), seeded(), width=3)
    assert code.shape == (13, 3)
    assert torch.allclose(code.norm(dim=1), torch.full((13,), 3**0.5))
    alike = code @ code.T / 3
    assert alike[0, 4] > 0.95
    assert alike[7, 11] > 0.95
    assert alike[0, 11] < 0.5


def test_a_graph_with_few_nodes_has_few_vectors() -> None:
    assert encode_structure(Graph([0], [1], num_nodes=3), seeded()).shape == (3, 3)
    assert encode_structure(Graph([], [], num_nodes=1), seeded()).isfinite().all()


WIDTH, PARTS = 3, 3


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def graph(*, types: int = 1, weighted: bool = False) -> gpnn.Graph:
    """Thirteen nodes: repeated and one-way edges, self-loops, an isolated node, and nodes that no edge reaches."""
    generator = np.random.default_rng(5)
    src, dst = generator.integers(0, 12, (2, 40))
    src[:3], dst[:3] = [4, 4, 7], [4, 5, 7]
    kind = torch.from_numpy(generator.integers(0, types, 40)) if types > 1 else None
    weight = torch.from_numpy(generator.uniform(-1, 2, 40)) if weighted else None
    return gpnn.Graph(torch.from_numpy(src), torch.from_numpy(dst), 13, kind, weight)


def hard(labels: Tensor) -> Tensor:
    return nn.functional.one_hot(labels, PARTS).double()


LABELS = torch.from_numpy(np.random.default_rng(1).integers(0, PARTS, 13))


def make_cell(update: str = "gru", message: str = "identity", aggregate: str = "mean", types: int = 1) -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    return build_cell(message, update, aggregate, {}, WIDTH, types, generator).double()


def compare(cell: nn.Module, where: gpnn.Graph, schedule: gpnn.Schedule, soft: SoftSchedule, loops: bool) -> None:
    """The states after each round: the engine's over the partition, and those of probabilities 0 and 1."""
    plan = gpnn.lower(where, schedule, normalization=soft.normalization, self_loops=loops)
    state = draw(where.num_nodes, WIDTH)
    expected = propagate(cell, plan, state, collect=True)
    found = propagate(cell, plan, state, runner=soft.bind(soft.inside(hard(LABELS))), collect=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("rule", NORMALIZATIONS)
@pytest.mark.parametrize("update", ["members", "receivers"])
def test_hard_probabilities_are_the_partition_schedule(update: str, rule: str, loops: bool) -> None:
    where = graph(weighted=rule != "phase")
    schedule = gpnn.schedule.partitioned(where, LABELS, rounds=2, intra=2, cut=2, update=update)
    phases = partitioned_phases(2, 2, update)
    soft = SoftSchedule.of(where, phases, 2, normalization=rule, self_loops=loops)
    compare(make_cell("linear"), where, schedule, soft, loops)


@pytest.mark.parametrize("update", UPDATES)
def test_under_every_cell(update: str) -> None:
    where = graph(types=2)
    schedule = gpnn.schedule.partitioned(where, LABELS, rounds=2)
    soft = SoftSchedule.of(where, partitioned_phases(), 2)
    compare(make_cell(update, "linear", types=2).eval(), where, schedule, soft, False)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
def test_hard_probabilities_are_the_held_cut(rule: str) -> None:
    where = graph()
    schedule = gpnn.schedule.held_cut(where, LABELS, rounds=2, intra=3)
    soft = SoftSchedule.of(where, held_cut_phases(3), 2, normalization=rule, self_loops=True)
    compare(make_cell("gru"), where, schedule, soft, True)


def test_sums_ignore_the_rule() -> None:
    where = graph(weighted=True)
    schedule = gpnn.schedule.partitioned(where, LABELS, rounds=1)
    soft = SoftSchedule.of(where, partitioned_phases(), 1, normalization="split", self_loops=True)
    compare(make_cell("mlp", aggregate="sum"), where, schedule, soft, True)


@pytest.mark.parametrize("sharing", ["round", "kind"])
def test_cells_of_their_own(sharing: str) -> None:
    generator = torch.Generator().manual_seed(1)
    parts = ("identity", "gru", "mean", {}, WIDTH, 1, generator)
    cell = share_cells(sharing, lambda: build_cell(*parts), 2, None).double()
    where = graph()
    schedule = gpnn.schedule.partitioned(where, LABELS, rounds=2)
    compare(cell, where, schedule, SoftSchedule.of(where, partitioned_phases(), 2), False)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
def test_gradients_reach_the_probabilities(rule: str) -> None:
    where = ring(5)
    soft = SoftSchedule.of(where, partitioned_phases(), 2, normalization=rule, self_loops=True)
    plan, cell = gpnn.lower(where, gpnn.schedule.synchronous(where, rounds=2)), make_cell("linear")

    def states(logits: Tensor, state: Tensor) -> Tensor:
        return propagate(cell, plan, state, runner=soft.bind(soft.inside(logits.softmax(1))))

    assert gradcheck(states, (draw(5, 2).requires_grad_(), draw(5, WIDTH, seed=1).requires_grad_()))


def test_gradients_through_the_gates_and_what_is_held() -> None:
    where = ring(4)
    soft = SoftSchedule.of(where, (*partitioned_phases(update="receivers"), *held_cut_phases(2)), 1)
    plan, cell = gpnn.lower(where, gpnn.schedule.synchronous(where, rounds=1)), make_cell("gru")

    def states(logits: Tensor) -> Tensor:
        return propagate(cell, plan, draw(4, WIDTH), runner=soft.bind(soft.inside(logits.softmax(1))))

    assert gradcheck(states, (draw(4, 3).requires_grad_(),))


def test_probabilities_by_hand() -> None:
    """Of a path 0 - 1 - 2 only 0 → 1 is certain to be inside: node 2 is in either subgraph."""
    path = gpnn.Graph([0, 1, 2, 1], [1, 2, 2, 0], num_nodes=3)
    soft = SoftSchedule.of(path, partitioned_phases(), 1)
    s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    edges = dict(zip(zip(soft.sender.tolist(), soft.receiver.tolist()), soft.inside(s).tolist()))
    assert edges == {(0, 1): 1, (1, 2): 0.5, (2, 2): 1, (1, 0): 1}


def test_gradients_stay_finite_where_nothing_is_inside() -> None:
    where = graph()
    soft = SoftSchedule.of(where, partitioned_phases(), 2, normalization="symmetric_phase")
    plan, cell = gpnn.lower(where, gpnn.schedule.synchronous(where, rounds=2)), make_cell("gru").float()
    logits = (nn.functional.one_hot(LABELS, PARTS) * 80.0).requires_grad_()
    state = propagate(cell, plan, draw(13, WIDTH).float(), runner=soft.bind(soft.inside(logits.softmax(1))))
    (gradient,) = torch.autograd.grad(state.sum(), logits)
    assert gradient.isfinite().all()


def test_errors() -> None:
    where = ring(4)
    soft = SoftSchedule.of(where, partitioned_phases(), 1)
    with pytest.raises(ValueError, match=r"`probabilities` must have shape \[4, K\]\. Got \[5, 2\]\."):
        soft.inside(torch.ones(5, 2))
    with pytest.raises(ValueError, match=r"`normalization` must be one of phase, .*\. Got 'rows'\."):
        SoftSchedule.of(where, partitioned_phases(), 1, normalization="rows")
    plan = gpnn.lower(where, gpnn.schedule.synchronous(where, rounds=1))
    cell = make_cell("gru", aggregate="max")
    with pytest.raises(ValueError, match=r"A soft partition needs cells that aggregate by mean or sum\. Got max\."):
        propagate(cell, plan, draw(4, WIDTH), runner=soft.bind(torch.ones(8, dtype=torch.float64)))
