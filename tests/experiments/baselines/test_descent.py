import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from experiments.baselines.descent import descend, make_optimizer

DATA = Data(y=torch.tensor([1, 0]), val_mask=torch.tensor([True, True]))
NO_VALIDATION = Data(y=torch.tensor([1, 0]))


class Counter(nn.Module):
    """A model whose weight counts its steps, and which is right around step `best`."""

    def __init__(self, best: int) -> None:
        super().__init__()
        self.steps, self.best = nn.Parameter(torch.zeros(()), requires_grad=False), best

    def step(self) -> None:
        self.steps += 1

    def logits(self) -> Tensor:
        sure = 1.0 if abs(float(self.steps) - self.best) < 3 else -1.0
        sharp = 1 - abs(float(self.steps) - self.best) / 100
        return sure * sharp * torch.tensor([[-1.0, 1.0], [1.0, -1.0]])


def test_ends_with_the_weights_that_validate_best() -> None:
    model = Counter(best=6)
    descend(model, model.step, model.logits, DATA, steps=9, check_every=2)
    assert float(model.steps) == 6


def test_patience_stops_early() -> None:
    model, taken = Counter(best=2), []
    descend(model, lambda: (taken.append(1), model.step())[1], model.logits, DATA, steps=50, check_every=1, patience=5)
    assert len(taken) == 7


def test_without_validation_the_last_weights_stay() -> None:
    model = Counter(best=2)
    descend(model, model.step, model.logits, NO_VALIDATION, steps=9)
    assert float(model.steps) == 9


@pytest.mark.parametrize(("name", "moved"), [("sgd", [10.0, 0.1]), ("adagrad", [0.1, 0.1])])
def test_adaptive_steps_go_as_far_for_a_small_gradient(name: str, moved: list[float]) -> None:
    weight = nn.Parameter(torch.zeros(2))
    rule = make_optimizer(name, [weight], 0.1)
    (weight * torch.tensor([-100.0, -1.0])).sum().backward()
    rule.step()
    torch.testing.assert_close(weight.detach(), torch.tensor(moved))
