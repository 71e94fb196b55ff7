"""Features that stay on the host: initial states and gradients by pieces."""

import pytest
import torch

from gpnn.engine.accumulate import FeatureSource
from gpnn.engine.saved_states import HostRows


def test_pieces_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("saved_states", "accumulate"):
        monkeypatch.setattr(f"gpnn.engine.{module}.PIECE_ROWS", 7)
    x, weight, bias = torch.randn(23, 4), torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    features = HostRows(23, 4, torch.float32)
    assert [len(piece) for piece in features.pieces] == [7, 7, 7, 2]
    features.write(x)
    source, into = FeatureSource(features, weight, bias, None), torch.empty(23, 3)
    source.load(into)
    torch.testing.assert_close(into, x @ weight + bias)
    grad = torch.randn(23, 3)
    source.absorb(grad)
    torch.testing.assert_close(weight.grad, x.T @ grad)
    torch.testing.assert_close(bias.grad, grad.sum(0))
