import pytest
import torch
from torch_geometric.data import Data

from gpnn.train.blend import Blend, _draw, blend_predictions, choose_blend
from gpnn.train.fit import FitResult
from gpnn.train.regression import Regression
from gpnn.train.task import Classification, Prediction


def result(logits, task):
    return FitResult({}, [], "epochs", None, logits, task)


def halves(num=600, seed=0):
    """Classes, and two models that each know those of another half of the nodes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (num,), generator=generator)
    right = 6.0 * torch.nn.functional.one_hot(y, 3)
    guess = torch.randn(2, num, 3, generator=generator)
    knows = torch.rand(num, generator=generator) < 0.5
    mask = torch.rand(num, generator=generator) < 0.5
    data = Data(y=y, val_mask=mask, test_mask=~mask, train_mask=torch.zeros(num, dtype=torch.bool))
    data.num_classes = 3
    return data, torch.where(knows[:, None], right, guess[0]), torch.where(knows[:, None], guess[1], right)


def accuracy(probabilities, data, mask):
    return float((probabilities.argmax(1) == data.y)[mask].double().mean())


def test_models_that_know_different_nodes_predict_together():
    data, one, other = halves()
    task = Classification(3)
    blend = choose_blend([("one", result(one, task)), ("other", result(other, task))], data)
    assert set(blend.weights) == {"one", "other"}
    assert sum(blend.weights.values()) == pytest.approx(1.0)
    assert list(blend.weights.values()) == sorted(blend.weights.values(), reverse=True)
    assert blend.gain > 0.1
    parts = [Prediction(blend.weights["one"], task, one), Prediction(blend.weights["other"], task, other)]
    found, outputs, scores = blend_predictions(parts, data)
    best = max(accuracy(each, data, data.test_mask) for each in (one, other))
    assert scores["test_accuracy"] == pytest.approx(accuracy(outputs, data, data.test_mask))
    assert scores["test_accuracy"] > best + 0.05
    mean = sum(weight * torch.softmax(each.double(), 1) for weight, _, each in parts)
    assert torch.allclose(torch.softmax(outputs.double(), 1), mean, atol=1e-6)
    assert found.num_classes == 3


def test_classes_are_predicted_as_often_as_they_are():
    data, one, other = halves()
    parts = [Prediction(0.5, Classification(3), each + torch.tensor([4.0, 0.0, 0.0])) for each in (one, other)]
    plain, _, before = blend_predictions(parts, data)
    task, outputs, scores = blend_predictions(parts, data, shares=True)
    assert plain.offsets == ()
    assert scores["test_accuracy_before"] == before["test_accuracy"]
    assert scores["test_accuracy"] > before["test_accuracy"] + 0.02
    assert scores["test_accuracy"] == pytest.approx(accuracy(task.predict(outputs), data, data.test_mask))
    assert scores["test_loss"] == before["test_loss"]  # that of the model itself
    assert "test_accuracy_before" not in before


def test_labels_of_the_test_nodes_move_no_class():
    data, one, other = halves()
    parts = [Prediction(0.5, Classification(3), each + torch.tensor([4.0, 0.0, 0.0])) for each in (one, other)]
    task = blend_predictions(parts, data, shares=True)[0]
    data.y = torch.where(data.test_mask, (data.y + 1) % 3, data.y)
    assert blend_predictions(parts, data, shares=True)[0] == task


def test_chance_is_not_kept():
    data, one, _ = halves()
    task, mask = Classification(3), data.val_mask
    for seed in range(5):
        noise = torch.randn(600, 3, generator=torch.Generator().manual_seed(seed))
        models = {"one": one, "noise": noise}
        given = [(name, result(each, task.calibrate(each[mask], data.y[mask]))) for name, each in models.items()]
        assert choose_blend(given, data).weights == {"one": 1.0}


def test_a_surer_model_of_the_same_accuracy_is_heavier():
    data, one, _ = halves()
    task = Classification(3)
    models = [("unsure", result(0.01 * one, task)), ("sure", result(one, task))]
    blend = choose_blend(models, data)
    assert next(iter(blend.weights)) == "sure"
    assert blend.gain > 0


def test_weights_are_those_of_the_least_loss_by_trying_all():
    """The oracle tries every share in tenths of three members; the draws come near the best."""
    data, one, other = halves(900)
    task, target = Classification(3), data.y[data.val_mask]
    third = torch.randn(900, 3, generator=torch.Generator().manual_seed(5))
    members = [(task, each[data.val_mask]) for each in (one, other, third)]

    def loss(counts):
        parts = [Prediction(count / 10, *member) for count, member in zip(counts, members) if count]
        return float(task.loss(task.combine(parts), target))

    tried = {(a, b, 10 - a - b): loss((a, b, 10 - a - b)) for a in range(11) for b in range(11 - a)}
    assert loss(_draw(members, target)) <= 1.01 * min(tried.values())


def test_the_order_of_nodes_does_not_count():
    data, one, other = halves()
    order = torch.randperm(600, generator=torch.Generator().manual_seed(2))
    moved = Data(y=data.y[order], **{name: data[name][order] for name in ("train_mask", "val_mask", "test_mask")})
    task = Classification(3)
    found = choose_blend([("one", result(one, task)), ("other", result(other, task))], data)
    again = choose_blend([("one", result(one[order], task)), ("other", result(other[order], task))], moved)
    assert found.weights == again.weights
    assert found.gain == pytest.approx(again.gain)


def test_few_validation_nodes_are_not_tried():
    data, one, other = halves(30)
    data.val_mask[10:] = False
    task = Classification(3)
    assert choose_blend([("one", result(one, task)), ("other", result(other, task))], data) == Blend({"one": 1.0})
    assert choose_blend([("one", FitResult({}, [], "non_finite"))], data) == Blend({})


def test_numbers_of_different_scales_are_averaged_in_the_unit_of_the_user():
    generator = torch.Generator().manual_seed(3)
    y = torch.exp(1 + 0.5 * torch.randn(400, generator=generator))
    noise = 0.5 * torch.randn(2, 400, generator=generator)
    mask = torch.arange(400) % 2 == 0
    data = Data(y=y, val_mask=mask, test_mask=~mask, train_mask=torch.zeros(400, dtype=torch.bool))
    logs, linear = Regression("log", mean=1.0, deviation=0.5), Regression(mean=3.0, deviation=1.6)
    outputs = [
        torch.stack([task.standardise(y) + each, torch.zeros(400)], 1) for task, each in zip((logs, linear), noise)
    ]
    blend = choose_blend([("logs", result(outputs[0], logs)), ("linear", result(outputs[1], linear))], data)
    assert set(blend.weights) == {"logs", "linear"}
    parts = [Prediction(0.25, logs, outputs[0]), Prediction(0.75, linear, outputs[1])]
    found, mixed, scores = blend_predictions(parts, data)
    assert found.scale == "linear"
    expected = 0.25 * logs.predict(outputs[0])[:, 0] + 0.75 * linear.predict(outputs[1])[:, 0]
    assert torch.allclose(found.predict(mixed)[:, 0], expected, rtol=1e-5)
    assert scores["test_coverage"] == pytest.approx(0.9, abs=0.06)
    assert logs.joins(found)
    assert not linear.joins(logs)
    far = torch.tensor([[1e4, 1e4]])  # a prediction that exp() does not bear
    assert linear.combine([Prediction(1.0, logs, far)]).isfinite().all()


def test_numbers_are_averaged_and_their_distance_widens_the_interval():
    generator = torch.Generator().manual_seed(1)
    y = 10 + 2 * torch.randn(400, generator=generator)
    noise = torch.randn(2, 400, generator=generator)
    outputs = [torch.stack([(y - 10) / 2 + each, torch.zeros(400)], 1) for each in noise]
    mask = torch.arange(400) % 2 == 0
    data = Data(y=y, val_mask=mask, test_mask=~mask, train_mask=torch.zeros(400, dtype=torch.bool))
    task = Regression(mean=10.0, deviation=2.0)
    blend = choose_blend([("a", result(outputs[0], task)), ("b", result(outputs[1], task))], data)
    assert 0.3 <= blend.weights["b"] <= 0.7
    parts = [Prediction(0.5, task, each) for each in outputs]
    found, mixed, scores = blend_predictions(parts, data)
    assert torch.allclose(mixed[:, 0], (outputs[0][:, 0] + outputs[1][:, 0]) / 2, atol=1e-6)
    expected = 1 + ((noise[0] - noise[1]) / 2).square()
    assert torch.allclose(mixed[:, 1].exp(), expected, rtol=1e-4)
    assert scores["test_coverage"] == pytest.approx(0.9, abs=0.06)
    assert found.predict(mixed).shape == (400, 3)


def test_numbers_weigh_by_their_errors_however_sure_they_are():
    generator = torch.Generator().manual_seed(2)
    y = torch.randn(400, generator=generator)
    noise = torch.tensor([[0.3], [0.6]]) * torch.randn(2, 400, generator=generator)
    mask = torch.arange(400) % 2 == 0
    data = Data(y=y, val_mask=mask, test_mask=~mask, train_mask=torch.zeros(400, dtype=torch.bool))
    task = Regression()
    for log_variance in (-8.0, -1.0, 3.0):  # as sure as a model that has learnt its training nodes by heart, or hardly
        better = torch.stack([y + noise[0], torch.full((400,), log_variance)], 1)
        worse = torch.stack([y + noise[1], torch.full((400,), -1.0)], 1)
        weights = choose_blend([("worse", result(worse, task)), ("better", result(better, task))], data).weights
        assert weights["better"] > 0.6


def test_numbers_weigh_by_their_errors_where_a_worse_model_knows_its_own():
    """By its likelihood the model that knows where it errs is better, and the mean of both far from the number."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(2, 400, generator=generator)
    far = torch.arange(400) % 4 > 1
    y = torch.zeros(400)
    mask = torch.arange(400) % 2 == 0
    data = Data(y=y, val_mask=mask, test_mask=~mask, train_mask=torch.zeros(400, dtype=torch.bool))
    deviation = torch.where(far, 1.5, 0.01)
    better = torch.stack([torch.where(far, 1.0, 0.1) * noise[0], torch.zeros(400)], 1)
    worse = torch.stack([deviation * noise[1], 2 * deviation.log()], 1)
    task = Regression()
    assert task.loss(worse[mask], y[mask]) < task.loss(better[mask], y[mask])
    weights = choose_blend([("worse", result(worse, task)), ("better", result(better, task))], data).weights
    assert weights["better"] > 0.6


def test_labels_are_averaged_each():
    task, outputs = Classification(2, multi_label=True), torch.tensor([[2.0, -1.0]])
    mixed = task.combine([Prediction(0.25, task, outputs), Prediction(0.75, task, -outputs)])
    expected = 0.25 * torch.sigmoid(outputs) + 0.75 * torch.sigmoid(-outputs)
    assert torch.allclose(torch.sigmoid(mixed), expected)


def test_a_blend_goes_through_json():
    blend = Blend({"spread": 0.7, "columns": 0.3}, 0.02)
    assert Blend.from_mapping(blend.to_mapping()) == blend
    for wrong in ([["spread", 1.5], ["columns", -0.5]], [["spread", 0.5]], [["spread", "much"]], {"spread": 1.0}, 3):
        with pytest.raises((ValueError, TypeError)):
            Blend.from_mapping({"weights": wrong, "gain": None})
