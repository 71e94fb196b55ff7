import pytest
import torch

from gpnn.train import predict_logits, probabilities, score
from gpnn.train.objective import Examples
from gpnn.train.task import Classification


def test_predicting_is_deterministic_and_leaves_the_mode_alone(planted, plan, model):
    model.train()
    first = predict_logits(model, planted.x, plan)
    assert torch.equal(first, predict_logits(model, planted.x, plan))
    assert model.training
    assert not first.requires_grad


def test_scores_by_hand():
    y = torch.tensor([0, 1, 1, -1])
    examples = Examples(None, y, {"train": torch.tensor([0]), "val": torch.tensor([1, 2]), "test": torch.tensor([])})
    logits = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-50.0, 50.0], [0.0, 0.0]])
    scores = score(logits, Classification(2), examples, "val", ["accuracy"])
    assert scores == {"val_loss": pytest.approx(torch.tensor(2.0).log().item() / 2), "val_accuracy": 0.5}
    assert score(logits, Classification(2), examples, "test") == {}


def test_probabilities():
    logits = torch.tensor([[0.0, 0.0]])
    assert probabilities(logits).tolist() == [[0.5, 0.5]]
    assert probabilities(logits + 100, multi_label=True).tolist() == [[1.0, 1.0]]
