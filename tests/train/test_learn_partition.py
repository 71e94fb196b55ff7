"""A partition that is learned: with and without a classifier, always the same for one seed."""

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import gpnn
from gpnn import Graph
from gpnn.nn import GPNN
from gpnn.nn.soft_schedule import SoftSchedule
from gpnn.schedule.partitioned import partitioned_phases
from gpnn.train.learn_partition import CUT_LOSSES, Classifier, CutEdges, PartitionRecipe, dmon, learn_partition, mincut
from tests.oracle.small_graphs import ring

SHORT = PartitionRecipe(epochs=60, learning_rate=0.02)


def learn(data: Data, k: int = 3, recipe: PartitionRecipe = SHORT, *, labelled: bool = True, seed: int = 0):
    schedule = SoftSchedule.of(gpnn.graph.as_graph(data), partitioned_phases(), 2)
    classifier = None
    if labelled:
        plan = gpnn.lower(data, gpnn.schedule.synchronous(data, rounds=2))
        classifier = Classifier(GPNN(data.x.shape[1], 8, 3, seed=seed), plan)
    return learn_partition(data, k, schedule, classifier=classifier, recipe=recipe, seed=seed), classifier


@pytest.fixture(scope="module")
def cliques() -> Data:
    """Three cliques of ten, each joined to the next by one edge."""
    pairs = [(a, b) for start in (0, 10, 20) for a in range(start, start + 10) for b in range(start, a)]
    pairs += [(9, 10), (19, 20)]
    edges = torch.tensor([*pairs, *((b, a) for a, b in pairs)]).T
    return Data(edge_index=edges, num_nodes=30)


@pytest.mark.parametrize("loss", ["mincut", "dmon"])
def test_cliques_are_found(cliques: Data, loss: str) -> None:
    part, _ = learn(cliques, recipe=PartitionRecipe(epochs=60, learning_rate=0.02, loss=loss), labelled=False)
    assert part.quality(cliques).num_cut_edges == 4
    assert part.sizes.tolist() == [10, 10, 10]


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_bits(planted: Data) -> None:
    state = torch.random.get_rng_state()
    first, second, other = (learn(planted, seed=seed)[0].labels for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_classifier_learns_on_the_way_and_moves_the_partition(planted: Data) -> None:
    start = GPNN(planted.x.shape[1], 8, 3).state_dict()
    part, classifier = learn(planted)
    alone, untouched = learn(planted, recipe=PartitionRecipe(epochs=60, learning_rate=0.02, classify=0.0))
    assert classifier is not None
    assert untouched is not None
    assert any(not torch.equal(start[name], each) for name, each in classifier.model.state_dict().items())
    assert all(torch.equal(start[name], each) for name, each in untouched.model.state_dict().items())
    assert not torch.equal(part.labels, alone.labels)
    predicted = classifier.model.eval()(planted.x, classifier.plan).argmax(1)
    assert (predicted == planted.y)[planted.train_mask].double().mean() > 0.8


def test_temperatures_fall_from_one() -> None:
    recipe = PartitionRecipe(epochs=3, temperature=0.01)
    assert [recipe.temperature_at(epoch) for epoch in (1, 2, 3)] == pytest.approx([1, 0.1, 0.01])


def test_one_subgraph_needs_no_training(cliques: Data) -> None:
    assert learn(cliques, 1, labelled=False)[0].labels.tolist() == [0] * 30


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"assignment": "tree"}, r"`assignment` must be one of network, free\. Got 'tree'\."),
        ({"loss": "ratio"}, r"`loss` must be one of mincut, dmon\. Got 'ratio'\."),
        ({"balance": -1.0}, r"`balance` must be at least 0\. Got -1\.0\."),
        ({"epochs": 0}, r"`epochs` must be an integer of at least 1\. Got 0\."),
        ({"temperature": 2.0}, r"`temperature` must be from 1e-06 to 1\.0\. Got 2\.0\."),
    ],
)
def test_settings_out_of_range(setting: dict, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        PartitionRecipe(**setting)


def test_a_loss_that_is_not_finite(cliques: Data) -> None:
    with pytest.raises(ValueError, match=r"must stay finite; try a smaller `learning_rate`\. Got nan in epoch 2\."):
        learn(cliques, recipe=PartitionRecipe(learning_rate=1e37), labelled=False)


def test_ring_of_even_parts() -> None:
    data = Data(edge_index=torch.stack([ring(24).src, ring(24).dst]), num_nodes=24)
    part, _ = learn(data, 2, PartitionRecipe(epochs=100), labelled=False)
    assert part.quality(data).num_cut_edges <= 8
    assert part.sizes.tolist() == pytest.approx([12, 12], abs=2)


def losses(name: str, graph: Graph, s: Tensor) -> tuple[float, float]:
    schedule = SoftSchedule.of(graph, partitioned_phases(), 1)
    cut, balance = CUT_LOSSES[name](CutEdges.of(schedule), schedule.inside(s), s)
    return float(cut), float(balance)


def dense(name: str, graph: Graph, s: Tensor) -> tuple[float, float]:
    """The equations of the papers, of a symmetric graph."""
    size, k = s.shape
    a = torch.zeros(size, size, dtype=s.dtype).index_put((graph.src, graph.dst), torch.ones(1).to(s), accumulate=True)
    a.fill_diagonal_(0)
    d = a.sum(1)
    if name == "mincut":
        within = torch.trace(s.T @ a @ s) / torch.trace(s.T @ torch.diag(d) @ s)
        overlap = s.T @ s
        return float(1 - within), float((overlap / overlap.norm() - torch.eye(k) / k**0.5).norm())
    modularity = torch.trace(s.T @ (a - torch.outer(d, d) / d.sum()) @ s) / d.sum()
    return -float(modularity), float(k**0.5 / size * s.sum(0).norm() - 1)


@pytest.mark.parametrize("name", CUT_LOSSES)
def test_the_equations(name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    src, dst = torch.randint(7, (2, 15), generator=generator)
    graph = Graph(torch.cat([src, dst]), torch.cat([dst, src]), num_nodes=7)  # with loops and repeated edges
    s = torch.randn(7, 3, dtype=torch.float64, generator=generator).softmax(1)
    assert losses(name, graph, s) == pytest.approx(dense(name, graph, s), abs=1e-6)


def test_a_ring_cut_in_two() -> None:
    s = torch.tensor([[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4)
    assert losses("mincut", ring(8), s) == pytest.approx((2 / 8, 0), abs=1e-6)
    assert losses("dmon", ring(8), s) == pytest.approx((-(6 / 8 - 1 / 2), 0), abs=1e-6)


def test_one_subgraph_for_all_is_the_least_even() -> None:
    s = torch.tensor([[1.0, 0.0]] * 8)
    assert losses("mincut", ring(8), s) == pytest.approx((0, (2 - 2**0.5) ** 0.5), abs=1e-6)
    assert losses("dmon", ring(8), s) == pytest.approx((0, 2**0.5 - 1), abs=1e-6)


@pytest.mark.parametrize("loss", [mincut, dmon])
def test_a_graph_without_edges(loss) -> None:  # type: ignore[no-untyped-def]
    schedule = SoftSchedule.of(Graph([], [], num_nodes=2), partitioned_phases(), 1)
    s = torch.tensor([[0.5, 0.5], [0.2, 0.8]], requires_grad=True)
    cut, balance = loss(CutEdges.of(schedule), schedule.inside(s), s)
    (cut + balance).backward()
    assert s.grad is not None
    assert s.grad.isfinite().all()
