from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch_geometric.data import Data

import gpnn
from gpnn.data.features import from_scipy
from gpnn.nn.column_model import ColumnModel
from gpnn.nn.layers import feature_operator
from gpnn.train.column_settings import FIRST_SPARSE, FIRST_UNSCALED, Setting, column_arguments
from gpnn.train.column_solver import MOST_PER_LABEL, ColumnSolver
from gpnn.train.fit import fit
from gpnn.train.objective import Examples
from gpnn.train.recipe import Recipe
from gpnn.train.task import task_of
from tests.oracle.number_graph import number_graph
from tests.oracle.planted import planted_graph


@pytest.fixture(scope="module")
def planted() -> Data:
    """Three classes of a hundred nodes each."""
    features = lambda y: torch.nn.functional.one_hot(y, 3) * 1.5  # noqa: E731
    return planted_graph(300, 900, friends=0.9, features=features, splits=(120, 90))[0]


RECIPE = Recipe(epochs=40, patience=0, checkpoint_every=1)


def few(planted: Data) -> Data:
    return planted


def many(planted: Data) -> Data:
    """The same classes with 300 columns, most of them zero."""
    random = np.random.default_rng(0)
    x = (
        random.random((planted.num_nodes, 300)) < 0.02 + 0.2 * (np.arange(300) % 3 == planted.y.numpy()[:, None])
    ).astype(np.float32)
    return Data(**{**planted.to_dict(), "x": from_scipy(csr_array(x), sparse=True)})


def multi_label(planted: Data) -> Data:
    return Data(**{**planted.to_dict(), "y": torch.stack([planted.y == 0, planted.y != 1], 1).long(), "num_classes": 2})


def numbers(planted: Data) -> Data:
    del planted
    return number_graph(120)


def selected(planted: Data) -> Data:
    """Many columns of so many nodes that trees read some of them."""
    del planted
    features = lambda y: torch.nn.functional.one_hot(y, 3) * 1.5  # noqa: E731
    return many(planted_graph(900, 2700, friends=0.9, features=features, splits=(600, 150))[0])


CASES = {each.__name__: each for each in (few, many, selected, multi_label, numbers)}


def train(data: Data, recipe: Recipe = RECIPE, **options):
    torch.manual_seed(0)
    model = ColumnModel(**{**column_arguments(data, **options), "iterations": 6, "num_leaves": 5})
    plan = gpnn.lower(data, gpnn.schedule.synchronous(data, rounds=2))
    return model, fit(model, data, plan, recipe=recipe), plan


def test_columns_that_are_mostly_zero_are_the_same_dense_or_sparse(planted):
    sparse = many(planted)
    x = sparse.x.to_dense() * (torch.arange(300) % 5 == 0)  # few enough that it is multiplied as a sparse one
    sparse.x, dense = from_scipy(csr_array(x.numpy()), sparse=True), Data(**{**sparse.to_dict(), "x": x})
    assert feature_operator(x) is not None
    (one, result, _), (other, again, _) = train(sparse), train(dense)
    assert torch.equal(one.linear.get_buffer("x_scale"), other.linear.get_buffer("x_scale"))
    torch.testing.assert_close(result.logits, again.logits)


@pytest.mark.parametrize(("num_labels", "scaled"), [(30, False), (60, True)])
def test_sparse_columns_are_scaled_where_labels_are_not_far_fewer(num_labels, scaled, planted):
    data = many(planted)
    data.train_mask = data.train_mask & (data.train_mask.cumsum(0) <= num_labels)
    assert (num_labels * MOST_PER_LABEL >= data.x.shape[1]) == scaled
    model, result, _ = train(data)
    scale = model.linear.get_buffer("x_scale")
    assert bool((scale == 1).all()) != scaled
    ridges = [record["strength"] for record in result.history if record["strength"]]
    assert ridges[: len(model.kinds)] == [FIRST_SPARSE if scaled else FIRST_UNSCALED] * len(model.kinds)


def test_sparse_columns_are_scaled_halfway_to_standard_units(planted):
    data = CASES["selected"](planted)
    scale = train(data)[0].linear.get_buffer("x_scale")
    deviation = data.x.to_dense().std(0, correction=0)
    torch.testing.assert_close(scale[deviation > 0], deviation[deviation > 0].rsqrt())


@pytest.mark.parametrize("case", ["many", "selected"])
def test_dense_columns_beside_many_features_are_blocks_of_size_one(case, planted):
    data = CASES[case](planted)
    model, _, plan = train(data)
    examples = Examples.from_data(data)
    task = task_of(data).prepare(examples.target("train"))
    solver = ColumnSolver.of(model, task, examples, plan, RECIPE, "accuracy", 0)
    sizes = (solver.columns.dense.std(0, correction=0) * solver.scale).square()
    assert [float(sizes[block].sum()) for block in model.blocks] == pytest.approx([1, 1, 1], rel=1e-4)
    assert sum(len(sizes[block]) for block in model.blocks) == len(sizes) - model.num_for_trees


def test_weights_of_edges_tell_which_neighbours_count(planted):
    """Every node has as many neighbours of its own class as of others, whose edges weigh little."""
    data, random = planted.clone(), np.random.default_rng(0)
    edges = random.integers(0, data.num_nodes, (2, 6000))
    same = (data.y[edges[0]] == data.y[edges[1]]).numpy()
    kept = same | (random.random(6000) < 0.5)
    edges, same = np.concatenate([edges[:, kept], edges[::-1, kept]], 1), np.concatenate([same[kept]] * 2)
    data.x, data.edge_index = torch.randn(data.num_nodes, 2), torch.from_numpy(edges)
    plain = train(data)[1].metrics["test_accuracy"]
    data.edge_weight = torch.from_numpy(np.where(same, 5.0, 0.1)).float()
    model, result, _ = train(data)
    assert model.weighted
    assert result.metrics["test_accuracy"] > max(0.95, plain + 0.02)
    assert not model.signed


def test_a_class_by_the_structure_around_a_node_is_learnt(planted):
    """Half of the nodes are in triangles, the others in rings of four; nothing else tells them apart."""
    node = np.arange(480)
    ring = np.where(node < 240, 3, 4)
    begin = np.where(node < 240, node // 3 * 3, 240 + (node - 240) // 4 * 4)
    other = begin + (node - begin + 1) % ring
    masks = {name: torch.from_numpy(node % 3 == number) for number, name in enumerate(("train_mask", "val_mask"))}
    edges = np.concatenate([[node, other], [other, node]], 1)
    data = Data(edge_index=torch.from_numpy(edges), y=torch.from_numpy((node < 240).astype(int)), **masks)
    data.x, data.test_mask = torch.randn(480, 2), torch.from_numpy(node % 3 == 2)
    model, result, _ = train(data)
    assert result.metrics["test_accuracy"] == 1.0
    assert model.kept("far").all()
    assert model.kept("all").sum() == len(model.kept("all")) - model.num_far


def test_edges_of_weights_below_zero_are_a_type_of_their_own(planted):
    """Where enemies are as many as friends, both tell the class."""
    data, random = planted.clone(), np.random.default_rng(0)
    edges = random.integers(0, data.num_nodes, (2, 4000))
    same = (data.y[edges[0]] == data.y[edges[1]]).numpy()
    data.x, data.edge_index = torch.randn(data.num_nodes, 2), torch.from_numpy(np.concatenate([edges, edges[::-1]], 1))
    plain = train(data)[1].metrics["test_accuracy"]
    data.edge_weight = torch.from_numpy(np.tile(np.where(same, 1.0, -1.0), 2)).float()
    model, result, _ = train(data)
    assert (model.signed, model.num_types) == (True, 2)
    assert result.metrics["test_accuracy"] > plain + 0.2


@pytest.mark.parametrize("case", CASES)
def test_every_task_is_learnt(case, planted):
    data = CASES[case](planted)
    model, result, plan = train(data)
    assert result.metrics[f"val_{result.metrics['metric']}"] > (0.5 if case == "numbers" else 0.8)
    kinds = {Setting.of(record)[:2] for record in result.history}
    assert {kind for solver, kind in kinds if solver == "linear"} == set(model.kinds)
    assert {solver for solver, _ in kinds} == set(model.solvers)
    assert torch.equal(model(data.x, plan).detach(), result.logits)


@pytest.mark.parametrize("case", CASES)
def test_labels_of_validation_and_test_reach_neither_columns_nor_weights(case, planted):
    """Shuffled, they change which setting and how many trees are best, so that these are held fixed."""
    data = CASES[case](planted)
    hidden = ~data.train_mask
    shuffled = data.clone()
    order = torch.from_numpy(np.random.default_rng(0).permutation(int(hidden.sum())))
    shuffled.y[hidden] = data.y[hidden][order]
    assert not torch.equal(shuffled.y, data.y)
    for method, epochs in (("linear", 1), ("trees", 1)):
        found = []
        for each in (data, shuffled):
            own = each.clone()
            del own.val_mask
            model, _, plan = train(own, replace(RECIPE, epochs=epochs), method=method)
            found.append((model.columns(data.x, plan).dense, model.state_dict()))
        assert torch.equal(found[0][0], found[1][0])
        assert all(torch.equal(value, found[1][1][name]) for name, value in found[0][1].items())


def test_trees_read_the_widest_of_many_columns_and_the_ridge_does_not_count_them_twice(planted):
    data = selected(planted)
    model, _, plan = train(data, replace(RECIPE, epochs=1))
    assert model.solvers == ("linear", "trees")
    x = data.x.to_dense()
    deviation = x.double().std(0, correction=0)
    assert deviation[model.selected].min() >= deviation.sort().values[300 - len(model.selected)] - 1e-9
    dense = model.columns(data.x, plan).dense
    assert torch.equal(dense[:, : len(model.selected)], x[:, model.selected])
    assert torch.equal(model.columns(x, plan).dense, dense)
    assert not model.linear.dense_weight[: model.num_for_trees].any()
    model.selected[0] = 300
    with pytest.raises(ValueError, match=r"Selected features must be below 300\. Got 300\."):
        model(data.x, plan)


def test_a_training_goes_on_from_a_checkpoint_to_the_same_bits(planted, tmp_path):
    model, result, _ = train(planted)
    file = tmp_path / "checkpoint"

    class Stop:
        def start(self, history):
            pass

        def epoch(self, record):
            return record["epoch"] == 4

    arguments = {**column_arguments(planted), "iterations": 6, "num_leaves": 5}
    plan = gpnn.lower(planted, gpnn.schedule.synchronous(planted, rounds=2))
    begun = fit(ColumnModel(**arguments), planted, plan, recipe=RECIPE, checkpoint=file, callbacks=[Stop()])
    assert begun.stopped == "interrupted"
    resumed = ColumnModel(**arguments)
    again = fit(resumed, planted, plan, recipe=RECIPE, checkpoint=file)
    assert [each["loss"] for each in again.history] == [each["loss"] for each in result.history]
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in resumed.state_dict().items())


def test_without_features_degrees_and_labels_are_left(planted):
    data = Data(
        **{name: value for name, value in planted.to_dict().items() if name != "x"}, num_nodes=planted.num_nodes
    )
    model, result, _ = train(data)
    assert model.kinds == ("far", "all", "unlabelled")
    assert result.metrics["test_accuracy"] > 0.5


def test_rare_classes_weigh_more_when_balanced(planted):
    data = planted.clone()
    data.train_mask = data.train_mask & ((data.y != 2) | (torch.arange(data.num_nodes) % 5 == 0))
    for method in ("linear", "trees"):
        plain, balanced = (
            train(data, replace(RECIPE, class_weight=weight, epochs=1), method=method)[1]
            for weight in ("none", "balanced")
        )
        count = [(each.logits.argmax(1) == 2).sum() for each in (plain, balanced)]
        assert count[1] > count[0]


def test_labels_move_with_their_nodes(planted):
    """In a graph of the same nodes in another order, with new ones, known nodes have the columns that they had."""
    model, _, plan = train(planted)
    before = model.columns(planted.x, plan)
    order = torch.from_numpy(np.random.default_rng(0).permutation(planted.num_nodes))
    place = torch.empty_like(order)
    place[order] = torch.arange(planted.num_nodes)
    new = 4
    grown = Data(
        x=torch.cat([planted.x[order], torch.zeros(new, planted.x.shape[1])]),
        edge_index=place[planted.edge_index],
        num_nodes=planted.num_nodes + new,
    )
    model.move_labels(torch.cat([order, torch.full((new,), -1)]))
    after = model.columns(grown.x, gpnn.lower(grown, gpnn.schedule.synchronous(grown, rounds=2)))
    torch.testing.assert_close(after.dense[: planted.num_nodes], before.dense[order])
    assert torch.isfinite(after.dense).all()
