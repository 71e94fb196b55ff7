import math

import pytest
import torch
from torch.nn import functional

from gpnn.train.loss import balanced_class_weight, consistency_loss, supervised_loss, yes_or_no
from gpnn.train.regression import Regression


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
