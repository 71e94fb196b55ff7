"""Regression: targets in the user's unit, intervals, and nothing learnt from validation or test targets."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import check_data
from gpnn.data.features import transform_data
from gpnn.pipeline import Pipeline
from gpnn.recipes import find_recipe
from gpnn.train import FitResult, fit
from gpnn.train.fit import resolve_target_scale
from gpnn.train.recipe import Recipe
from gpnn.train.regression import Regression
from gpnn.train.task import Classification, parse_task, task_of
from tests.oracle.number_graph import number_graph

RECIPE = Recipe(epochs=80, patience=0, learning_rate=0.02)
PIPELINE = Pipeline(k=4, rounds=3, hidden_channels=16, self_loops=True, model_options={"cell": "linear"})


def trained(data: Data, recipe: Recipe = RECIPE, pipeline: Pipeline = PIPELINE) -> tuple[FitResult, Regression]:
    made = pipeline.assemble(check_data(data), recipe)
    result = fit(made.model, made.data, made.plan, recipe=recipe)
    assert isinstance(result.task, Regression)
    return result, result.task


@pytest.fixture(scope="module")
def result() -> FitResult:
    return trained(number_graph())[0]


def test_the_graph_helps(result):
    """With the edges taken away the same features explain less."""
    bare = number_graph()
    bare.edge_index = torch.arange(300).repeat(2, 1)  # loops alone
    alone, _ = trained(bare)
    assert result.metrics["test_r2"] > alone.metrics["test_r2"] + 0.1
    assert result.metrics["test_r2"] > 0.8
    assert result.metrics["metric"] == "r2"


def test_predictions_are_in_the_users_unit(result):
    other, task = trained(number_graph(unit=1e6))
    assert other.metrics["test_r2"] == pytest.approx(result.metrics["test_r2"], abs=0.02)
    assert other.metrics["test_mae"] == pytest.approx(1e6 * result.metrics["test_mae"], rel=0.1)
    assert task.predict(other.logits)[:, 0].std() == pytest.approx(1e6, rel=0.3)


def test_targets_that_do_not_train_are_not_learnt_from():
    """Shuffled validation and test targets leave every training loss as it was, and with it the last weights."""
    data = number_graph()
    shuffled = data.clone()
    for name in ("val_mask", "test_mask"):
        nodes = data[name].nonzero().flatten()
        shuffled.y[nodes] = data.y[nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(1))]]
    one, other = (trained(each, replace(RECIPE, epochs=20))[0] for each in (data, shuffled))
    assert [row["loss"] for row in one.history] == [row["loss"] for row in other.history]
    assert [row["val_loss"] for row in one.history] != [row["val_loss"] for row in other.history]


def test_intervals_hold_the_share_that_they_promise():
    data = number_graph(1200)
    result, task = trained(data)
    test = data.test_mask
    widths = []
    for level in (0.5, 0.8, 0.95):
        number, low, high = task.predict_interval(result.logits, level).unbind(1)
        assert bool(((low <= number) & (number <= high)).all())
        inside = float(((low <= data.y) & (data.y <= high))[test].double().mean())
        assert inside == pytest.approx(level, abs=0.1)
        widths.append(float((high - low).mean()))
    assert widths == sorted(widths)
    assert result.metrics["test_coverage"] == pytest.approx(0.9, abs=0.08)
    with pytest.raises(ValueError, match=r"`interval` must be between 0 and 1\. Got 1\."):
        task.predict_interval(result.logits, 1)


def test_without_validation_nodes_an_interval_is_a_gaussians():
    task = Regression().prepare(torch.tensor([0.0, 2.0]))
    number, low, high = task.predict_interval(torch.tensor([[0.0, 0.0]]), 0.9)[0].tolist()
    assert (number, low, high) == (1.0, pytest.approx(1 - 1.6449, abs=1e-4), pytest.approx(1 + 1.6449, abs=1e-4))


def test_the_mean_does_not_feel_the_variance():
    """Its gradient is that of ½(z − μ)², whatever variance the model gives."""
    target = torch.tensor([1.0, -1.0])
    task = Regression().prepare(target)
    for log_variance in (-3.0, 0.0, 3.0):
        outputs = torch.tensor([[0.5, log_variance], [0.5, log_variance]], requires_grad=True)
        task.loss(outputs, target).backward()
        assert torch.allclose(outputs.grad[:, 0], torch.tensor([-0.5, 1.5]) / 2)


def test_a_model_with_one_output_predicts_the_mean():
    task = Regression().prepare(torch.tensor([1.0, 3.0]))
    assert task.predict(torch.tensor([[0.5]]))[0, 0] == 2.5


def test_skewed_targets_are_learnt_by_their_logarithms_where_validation_is_better_so():
    data = check_data(number_graph(skewed=True))
    made = PIPELINE.assemble(data, RECIPE)
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    chosen = resolve_target_scale(made.model, data, made.plan, replace(RECIPE, epochs=30))
    assert chosen.target_scale == "log"
    assert all(torch.equal(before[name], value) for name, value in made.model.state_dict().items())
    result = fit(made.model, data, made.plan, recipe=chosen)
    assert bool((result.task.predict(result.logits) > 0).all())


def test_other_targets_need_no_trial():
    data = check_data(number_graph())
    made = PIPELINE.assemble(data, RECIPE)
    assert resolve_target_scale(made.model, data, made.plan, RECIPE) is RECIPE
    classes = check_data(Data(x=torch.eye(3), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, 0])))
    assert task_of(classes).scales(classes.y) == ("linear",)
    assert Regression().scales(torch.tensor([1.0, 2.0, -3.0])) == ("linear",)
    assert Regression().scales(torch.tensor([1.0, 1.5, 2.0, 1.2, 500.0])) == ("linear", "log")


@pytest.mark.thorough
def test_every_recipe_learns_numbers():
    data = transform_data(check_data(number_graph()), scale_features="auto")
    for name in ("spread", "gated"):
        named = find_recipe(name)
        pipeline = replace(named.pipeline, rounds=3, k=4, hidden_channels=16)
        result, _ = trained(data, replace(named.train, epochs=60), pipeline)
        assert result.metrics["test_r2"] > 0.5, name


def test_what_does_not_suit_numbers_is_refused():
    data = number_graph()
    with pytest.raises(ValueError, match=r"`class_weight` must be 'none' in a regression"):
        trained(data, replace(RECIPE, class_weight="balanced"))
    with pytest.raises(
        ValueError, match=r"`metric` must be one of auto, loss, r2, mae, rmse, spearman\. Got 'accuracy'"
    ):
        trained(data, replace(RECIPE, metric="accuracy"))
    with pytest.raises(ValueError, match=r"`target_scale` 'log' needs positive targets"):
        trained(data, replace(RECIPE, target_scale="log"))
    data.y = torch.where(data.train_mask, 1.5, data.y)
    with pytest.raises(ValueError, match=r"A regression needs training numbers that differ\. Got 1\.5 alone\."):
        trained(data)


def test_a_task_survives_its_own_file(result):
    for task in (result.task, Regression(), Classification(3), Classification(4, multi_label=True)):
        assert parse_task(task.to_mapping(), "model.json") == task
    sound = result.task.to_mapping()
    for broken in (
        None,
        {"name": "magic"},
        {"name": "classification"},
        {**sound, "deviation": 0.0},
        {**sound, "mean": math.nan},
        {**sound, "errors": [1.0, 0.5]},
        {**sound, "scale": "cubic"},
    ):
        with pytest.raises(ValueError, match=r"model\.json must hold a task\. Got "):
            parse_task(broken, "model.json")


def test_quantiles_of_few_errors_are_the_next_larger():
    task = Regression().prepare(torch.tensor([-1.0, 1.0]))
    outputs = torch.zeros(4, 2)
    ready = task.calibrate(outputs, torch.tensor([0.1, 0.2, 0.3, 0.4]))
    reach = ready.predict_interval(outputs[:1], 0.5)[0, 2].item()
    assert reach == pytest.approx(0.3)  # the third of four: ⌈5 · 0.5⌉
    assert ready.predict_interval(outputs[:1], 0.99)[0, 2].item() == pytest.approx(0.4)
    for count in (2, 7, 24, 199, 200):
        errors = torch.arange(1.0, count + 1)
        ready = task.calibrate(torch.zeros(count, 2), errors)
        rank = min(count, math.ceil((count + 1) * 0.9))
        assert ready.predict_interval(outputs[:1], 0.9)[0, 2].item() == pytest.approx(rank), count
    many = task.calibrate(torch.zeros(1000, 2), torch.arange(1.0, 1001.0))
    assert 901 <= many.predict_interval(outputs[:1], 0.9)[0, 2].item() <= 905
    assert np.isclose(task.calibrate(outputs[:0], torch.empty(0)).predict(outputs)[0, 2].item(), 1.6449, atol=1e-4)
