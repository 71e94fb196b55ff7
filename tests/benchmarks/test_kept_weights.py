"""What each rule keeps of a training's checks."""

from benchmarks.kept_weights import RULES, choose


def test_each_rule_keeps_its_own_check() -> None:
    curve = [(0.5, 1.0, 0.4), (0.6, 0.9, 0.5), (0.7, 1.1, 0.6), (0.6, 0.8, 0.5), (0.5, 0.7, 0.3), (0.4, 2.0, 0.2)]
    assert [choose(curve, rule)[0] for rule in RULES] == [3, 5, 4, 6]


def test_equal_accuracies_keep_the_smaller_loss() -> None:
    assert choose([(0.5, 1.0, 0.4), (0.5, 0.8, 0.3), (0.5, 0.9, 0.5)], "accuracy") == [2, 0.5, 0.8, 0.3]
