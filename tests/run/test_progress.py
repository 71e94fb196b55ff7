import math

import torch
from torch import nn

from gpnn.run.progress import Progress


def check(progress: Progress, model: nn.Module, value: float, loss: float) -> bool:
    progress.epoch += 1
    return progress.check(model, value, loss)


def test_best_by_value_then_by_loss():
    progress, model = Progress(), nn.Linear(1, 1)
    answers = [
        check(progress, model, 0.5, 1.0),
        check(progress, model, 0.5, 0.9),
        check(progress, model, 0.5, 0.9),
        check(progress, model, 0.4, 0.1),
        check(progress, model, 0.6, 5.0),
    ]
    assert answers == [True, True, False, False, True]
    assert (progress.best_epoch, progress.best_value, progress.checks_since_best) == (5, 0.6, 0)


def test_what_is_not_a_number_is_never_best():
    progress, model = Progress(), nn.Linear(1, 1)
    assert not check(progress, model, math.nan, 0.1)
    assert not check(progress, model, 1.0, math.nan)
    assert progress.checks_since_best == 2


def test_best_weights_are_a_copy():
    progress, model = Progress(), nn.Linear(1, 1)
    check(progress, model, 0.5, 1.0)
    kept = progress.best_weights["weight"].clone()
    with torch.no_grad():
        model.weight += 1
    assert torch.equal(progress.best_weights["weight"], kept)
