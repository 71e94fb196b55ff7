from dataclasses import replace

import numpy as np
import pytest
import torch

from gpnn import GPNNClassifier
from gpnn.train import Recipe, fit
from gpnn.train.calibration import calibration_error, choose_temperature, fit_temperature
from gpnn.train.task import Classification, parse_task


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
