import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from gpnn import GPNNClassifier
from gpnn.train import Recipe, fit
from gpnn.train.loss import (
    RIDGE,
    balanced_class_weight,
    calibration_error,
    choose_offsets,
    choose_temperature,
    consistency_loss,
    fit_offsets,
    fit_temperature,
    supervised_loss,
    yes_or_no,
)
from gpnn.train.regression import Regression
from gpnn.train.task import Classification, parse_task


def test_supervised_loss_is_cross_entropy():
    logits = torch.tensor([[0.0, math.log(3.0)]])
    assert supervised_loss(logits, torch.tensor([1])).item() == pytest.approx(-math.log(0.75))


def test_smoothed_multi_label_loss():
    logits, target = torch.tensor([[0.3, -1.0]]), torch.tensor([[1.0, 0.0]])
    expected = functional.binary_cross_entropy_with_logits(logits, torch.tensor([[0.9, 0.1]]))
    assert torch.allclose(supervised_loss(logits, target, label_smoothing=0.2), expected)


def test_class_weight_changes_the_mean():
    logits, target = torch.zeros(3, 2), torch.tensor([0, 0, 1])
    logits[2, 0] = 1.0
    plain = supervised_loss(logits, target)
    heavy = supervised_loss(logits, target, class_weight=balanced_class_weight(target, 2))
    assert heavy > plain


def test_balanced_weights_by_hand():
    assert balanced_class_weight(torch.tensor([0, 0, 0, 1]), 2).tolist() == pytest.approx([2 / 3, 2.0])
    assert balanced_class_weight(torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), 2).tolist() == [2.0, 3.0]


def test_consistency_by_hand():
    # passes say (0.8, 0.2) and (0.4, 0.6): average (0.6, 0.4), sharpened by squares (9/13, 4/13)
    logits = [torch.tensor([[0.8, 0.2]]).log(), torch.tensor([[0.4, 0.6]]).log()]
    expected = ((0.8 - 9 / 13) ** 2 * 2 + (0.4 - 9 / 13) ** 2 * 2) / 2
    assert consistency_loss(logits, temperature=0.5).item() == pytest.approx(expected)


def test_consistency_takes_no_gradient_through_its_target():
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    other = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    consistency_loss([logits, other]).backward()
    prediction = torch.softmax(logits.detach(), 1).requires_grad_()
    average = (prediction.detach() + torch.softmax(other, 1)) / 2
    target = average**2 / (average**2).sum(1, keepdim=True)
    (gradient,) = torch.autograd.grad((prediction - target).square().sum(1).mean() / 2, prediction)
    through_softmax = prediction * (gradient - (gradient * prediction).sum(1, keepdim=True))
    assert torch.allclose(logits.grad, through_softmax, atol=1e-6)


def test_consistency_leaves_out_unsure_nodes():
    sure, unsure = torch.tensor([[5.0, 0.0]]), torch.tensor([[0.1, 0.0]])
    both = [torch.cat([sure, unsure]), torch.cat([sure, -unsure])]
    alone = [sure, sure]
    assert torch.allclose(consistency_loss(both, threshold=0.9), consistency_loss(alone))
    assert consistency_loss([unsure, -unsure], threshold=0.9).item() == 0.0


def test_sharp_targets_of_many_classes_stay_finite():
    logits = [torch.zeros(2, 500), torch.zeros(2, 500)]
    assert consistency_loss(logits, temperature=0.02).item() == pytest.approx(0.0, abs=1e-6)


def test_multi_label_is_a_question_a_label():
    logits = torch.tensor([[0.7, -2.0]])
    assert torch.allclose(yes_or_no(logits).softmax(-1)[..., 0], torch.sigmoid(logits))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_whole_weights_are_repetitions(labels, smoothing, weighted):
    generator = torch.Generator().manual_seed(0)
    logits, times = torch.randn(4, 3, generator=generator), torch.tensor([1, 3, 2, 1])
    target = torch.tensor([0, 2, 1, 2]) if labels == 1 else torch.randint(0, 2, (4, 3), generator=generator)
    settings = {"label_smoothing": smoothing, "class_weight": torch.tensor([1.0, 0.5, 2.0]) if weighted else None}
    repeated = supervised_loss(logits.repeat_interleave(times, 0), target.repeat_interleave(times, 0), **settings)
    assert torch.allclose(supervised_loss(logits, target, weight=times.float(), **settings), repeated)


def test_whole_weights_are_repetitions_of_numbers():
    outputs, times = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 1, 3])
    target, task = torch.tensor([1.0, -2.0, 0.5]), Regression()
    repeated = task.loss(outputs.repeat_interleave(times, 0), target.repeat_interleave(times, 0))
    assert torch.allclose(task.loss(outputs, target, weight=times.float()), repeated)


def drawn(temperature, num=400, classes=4, seed=0):
    """Logits, and classes drawn from the softmax of these divided by a temperature."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(num, classes, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial(torch.softmax(logits / temperature, 1), 1, generator=generator)[:, 0]


@pytest.mark.parametrize("temperature", [0.4, 2.5])
def test_the_temperature_is_found_that_classes_were_drawn_with(temperature):
    logits, target = drawn(temperature, 20_000)
    assert fit_temperature(logits, target) == pytest.approx(temperature, rel=0.05)
    grid = [torch.nn.functional.cross_entropy(logits / t, target) for t in np.linspace(0.3, 3, 271)]
    assert fit_temperature(logits, target) == pytest.approx(np.linspace(0.3, 3, 271)[int(np.argmin(grid))], abs=0.011)


def test_what_is_calibrated_stays_as_it_is():
    assert choose_temperature(*drawn(1.0)) == 1.0
    assert choose_temperature(*drawn(3.0)) > 2
    assert choose_temperature(*drawn(3.0, 9)) == 1.0  # too few to tell


def test_the_offsets_are_found_that_classes_were_drawn_with():
    logits, target = drawn(1.0, 20_000)
    given = torch.tensor([0.5, -0.5, 1.0, -1.0], dtype=torch.float64)
    found = fit_offsets(logits - given, target)
    assert torch.allclose(found - found.mean(), given, atol=0.1)
    offsets = found.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(logits - given + offsets, target, reduction="sum")
    (loss + RIDGE / 2 * offsets.square().sum()).backward()
    assert float(offsets.grad.abs().max()) < 1e-6  # the least of loss and ridge


def test_shares_that_are_right_stay_as_they_are():
    logits, target = drawn(1.0)
    assert choose_offsets(logits, target) == ()
    assert choose_offsets(logits[:9], target[:9]) == ()  # too few to tell
    offsets = choose_offsets(logits + torch.tensor([2.0, 0.0, 0.0, 0.0]), target)
    assert min(range(4), key=offsets.__getitem__) == 0


def test_offsets_of_certain_predictions_are_finite():
    logits = 1e4 * torch.eye(3, dtype=torch.float64)[torch.arange(60) % 3]
    assert bool(fit_offsets(logits, torch.zeros(60, dtype=torch.int64)).isfinite().all())


def test_few_predictions_that_are_all_right_do_not_make_certain():
    logits, _ = drawn(1.0, 30)
    sure = torch.softmax(logits / choose_temperature(logits, logits.argmax(1)), 1).amax(1)
    assert float(sure.mean()) < 1 - 1 / 60


def test_the_order_of_nodes_does_not_count():
    logits, target = drawn(2.0)
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(1))
    assert choose_temperature(logits[order], target[order]) == pytest.approx(choose_temperature(logits, target))


def test_the_error_is_the_distance_of_confidence_and_rightness():
    sure = torch.tensor([[0.9, 0.1]] * 10)
    assert calibration_error(sure, torch.tensor([0] * 9 + [1])) == pytest.approx(0.0, abs=1e-6)
    assert calibration_error(sure, torch.tensor([0] * 4 + [1] * 6)) == pytest.approx(0.5)
    labels = torch.tensor([[0.9, 0.1]] * 10)
    assert calibration_error(labels, torch.tensor([[1.0, 0.0]] * 10)) == pytest.approx(0.1)


def test_labels_are_calibrated_too():
    logits, _ = drawn(1.0, 2000)
    target = (torch.rand(logits.shape, generator=torch.Generator().manual_seed(3)) < torch.sigmoid(logits / 3)).long()
    task = Classification(4, multi_label=True).calibrate(logits, target)
    assert task.temperature == pytest.approx(3.0, rel=0.15)
    assert task.uncalibrated() == Classification(4, multi_label=True)
    assert torch.allclose(task.predict(logits), torch.sigmoid(logits / task.temperature))


def test_a_task_keeps_its_temperature_through_json():
    task = Classification(3, temperature=2.5)
    assert parse_task(task.to_mapping(), "task") == task
    assert parse_task({"name": "classification", "num_classes": 3}, "task") == Classification(3)  # older versions
    for wrong in (0, -1, float("nan"), float("inf"), "hot"):
        with pytest.raises(ValueError, match=r"task must hold a task\. Got "):
            parse_task({**task.to_mapping(), "temperature": wrong}, "task")


class Sure(torch.nn.Module):
    """A model that is far too sure of what is often wrong."""

    def __init__(self, data):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        wrong = torch.arange(data.num_nodes) % 3 == 0
        self.given = 9.0 * torch.nn.functional.one_hot(torch.where(wrong, (data.y + 1) % 3, data.y), 3)

    def forward(self, x, plan, key=None):
        return self.given + self.weight


def test_a_training_reports_what_the_temperature_changed(planted, plan):
    result = fit(Sure(planted), planted, plan, recipe=Recipe(epochs=1))
    found, before = result.metrics, "_before"
    assert result.task.temperature > 2
    for split in ("val", "test"):
        assert found[f"{split}_log_loss"] < found[f"{split}_log_loss{before}"] == pytest.approx(found[f"{split}_loss"])
        assert found[f"{split}_calibration_error"] < found[f"{split}_calibration_error{before}"]
    plain = replace(result.task, temperature=1.0)
    assert (result.task.predict(result.logits).argmax(1) == plain.predict(result.logits).argmax(1)).all()


def test_a_classifier_keeps_its_temperature(planted, tmp_path):
    classifier = GPNNClassifier(epochs=3).fit(planted)
    classifier.task_ = replace(classifier.task_, temperature=4.0)
    classifier.save(tmp_path / "saved")
    loaded = GPNNClassifier.load(tmp_path / "saved")
    assert loaded.task_ == classifier.task_
    assert (loaded.predict_proba(planted) == classifier.predict_proba(planted)).all()
