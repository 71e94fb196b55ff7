"""The max-plus cell by hand: distances, copies and maxima are exact however long the graph is."""

import networkx as nx
import numpy as np
import pytest
import torch

import gpnn
from gpnn.engine import propagate
from gpnn.nn import GPNN, Cell, CellBank
from gpnn.nn.cell import IdentityMessage
from gpnn.nn.update import MaxPlusUpdate
from tests.oracle.small_graphs import chain

KINDS = ("origin", "outward", "back")


def update_of(increments: list[float], keeps: list[bool]) -> MaxPlusUpdate:
    """An update with these increments, in steps of one, and these gates."""
    update = MaxPlusUpdate(len(increments), torch.Generator().manual_seed(0), step=1.0, rate=0.5)
    update.increment.data = torch.tensor(increments) / 0.5
    update.keep.data = torch.where(torch.tensor(keeps), 1.0, -1.0)
    return update


def wave_cell(increments: dict[str, list[float]], keeps: dict[str, list[bool]]) -> CellBank:
    """One cell per kind of phase of a wave."""
    cells = [Cell(IdentityMessage(), update_of(increments[kind], keeps[kind]), "max") for kind in KINDS]
    return CellBank(cells, KINDS)


def test_a_channel_takes_the_larger_or_what_arrives():
    state, messages = torch.tensor([[5.0, 5.0], [0.0, 0.0]]), torch.tensor([[1.0, 1.0], [2.0, 2.0]])
    update = update_of([1.0, 1.0], [True, False])
    assert update(state, messages, None).tolist() == [[5.0, 2.0], [3.0, 3.0]]


def test_increments_are_whole_and_learn_through_the_rounding():
    update = MaxPlusUpdate(2, torch.Generator().manual_seed(0), step=4.0)
    update.increment.data = torch.tensor([0.6, -1.4]) / update.rate
    update.keep.data[:] = 1 / update.rate
    out = update(torch.full((1, 2), -100.0), torch.zeros(1, 2), None)
    assert out.tolist() == [[4.0, -4.0]]
    out.sum().backward()
    torch.testing.assert_close(update.increment.grad, torch.full((2,), 4.0 * update.rate))


@pytest.mark.parametrize("length", [5, 80])
def test_a_wave_measures_distances_and_carries_a_class_along_a_chain_of_any_length(length):
    """Channel 0 starts at zero in the origin and counts; channel 1 copies what the origin holds."""
    graph = chain(length)
    cell = wave_cell(
        {"origin": [0.0, -1.0], "outward": [1.0, 0.0], "back": [-1.0, -1.0]},
        {"origin": [False, True], "outward": [False, False], "back": [True, True]},
    )
    state = torch.zeros(length, 2)
    state[0, 1] = 7.0
    found = propagate(cell, gpnn.lower(graph, gpnn.schedule.waves(graph, rounds=1)), state)
    assert found[:, 0].tolist() == list(range(length))
    assert found[:, 1].tolist() == [7.0] * length


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_of_three_waves_is_the_eccentricity_in_a_tree(seed):
    random = np.random.default_rng(seed)
    parent = [int(random.integers(node)) for node in range(1, 30)]
    tree = gpnn.Graph(parent, range(1, 30), num_nodes=30).to_undirected()
    cell = wave_cell(
        {"origin": [0.0], "outward": [1.0], "back": [-1.0]}, {"origin": [False], "outward": [False], "back": [True]}
    )
    plan = gpnn.lower(tree, gpnn.schedule.waves(tree, rounds=3, origins=int(random.integers(30))))
    found = torch.stack(propagate(cell, plan, torch.zeros(30, 1), collect=True)).amax(0)
    expected = nx.eccentricity(nx.Graph(zip(tree.src.tolist(), tree.dst.tolist(), strict=True)))
    assert found.flatten().tolist() == [expected[node] for node in range(30)]


def test_synchronous_steps_relax_the_distances():
    """With a step lost per hop, the largest arrival is the start less the distance, once there were enough steps."""
    graph = chain(6)
    cell = Cell(IdentityMessage(), update_of([-1.0], [True]), "max")
    state = torch.tensor([[10.0], *[[0.0]] * 5])
    found = propagate(cell, gpnn.lower(graph, gpnn.schedule.synchronous(graph, 5)), state)
    assert found.flatten().tolist() == [10.0, 9.0, 8.0, 7.0, 6.0, 5.0]


@pytest.mark.thorough
def test_a_trained_model_keeps_its_answer_on_longer_graphs():
    from gpnn.train import Recipe, fit

    def ring(**options):
        return gpnn.load_dataset("ring_transfer", num_graphs=60, num_classes=3, **options)

    def plan_of(data):
        return gpnn.lower(data, gpnn.schedule.waves(data, rounds=1))

    data, longer = ring(length=10, shortest=4), ring(length=64, seed=1)
    options = {"cell": "max_plus", "aggregate": "max", "sharing": "kind", "kinds": KINDS, "concat": "none"}
    model = GPNN(4, 16, 3, norm="pass", cell_options={"step": 0.0}, **options)
    fit(model, data, plan_of(data), recipe=Recipe(epochs=50, learning_rate=0.05))
    with torch.no_grad():
        right = model.eval()(longer.x, plan_of(longer)).argmax(1) == longer.y
    assert right[longer.y >= 0].float().mean() > 0.95


@pytest.mark.parametrize("options", [{"step": -1.0}, {"rate": -1.0}])
def test_refuses(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be at least"):
        MaxPlusUpdate(3, torch.Generator(), **options)
