"""Rules that weigh the recipes of a race."""

import pytest
import torch

from benchmarks.blend_rules import BLEND, compare, mix, rule_weights, score, table


def _outputs(right: float, num: int = 40) -> torch.Tensor:
    """Probabilities of two classes, of which the first one is right."""
    return torch.tensor([[right, 1 - right]]).repeat(num, 1)


def test_rules():
    target = torch.zeros(40, dtype=torch.long)
    val = {"spread": _outputs(0.8), "columns": _outputs(0.9), "gated": _outputs(0.6)}
    rules = rule_weights(val, target, {"columns": 1.0})
    assert rules["best"] == {"spread": 1.0}
    assert rules["least loss"] == {"columns": 1.0}
    assert rules["uniform, networks"] == {"spread": 0.5, "gated": 0.5}
    assert rules["half, networks"] == {"spread": 0.25, "columns": 0.5, "gated": 0.25}
    for weights in rules.values():
        assert sum(weights.values()) == pytest.approx(1.0)
    assert score(mix(val, rules["uniform"]), target) == [1.0, round(-float(torch.tensor(2.3 / 3).log()), 4)]


def test_table_is_paired():
    lines = [
        {"graph": "cora", "held": {"selection": [0.8, 1.0], "best": [0.81, 1.0]}},
        {"graph": "cora", "held": {"selection": [0.7, 1.0], "best": [0.71, 1.0]}},
    ]
    assert "| best | 76.0 [2] | +1.00 ± 0.00 |" in table(lines)


def test_races_are_compared_with_those_before():
    before = [{"graph": "cora", "split": k, "held": {BLEND: [0.8, 1.0]}, "recipes": {}} for k in range(3)]
    now = [{"graph": "cora", "split": k, "held": {BLEND: [0.82, 1.0]}, "recipes": {}} for k in range(2)]
    assert "| cora | blend | 80.0 [2] | 82.0 [2] | +2.00 ± 0.00 |" in compare(now, before)
