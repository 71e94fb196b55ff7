"""Measures: how a metric is written and named."""

from __future__ import annotations

SHARES = (
    "accuracy",
    "macro_f1",
    "recall",
    "roc_auc",
    "score",
    "edge_cut",
    "pairs_reached",
)  # fractions shown in percent


def is_share(measure: str) -> bool:
    """Whether a metric is a fraction that tables show in percent.

    >>> is_share("test_accuracy"), is_share("cpu_seconds")
    (True, False)
    """
    return measure.removesuffix("_before").endswith(SHARES)


def scale(measure: str) -> float:
    """What a metric is multiplied by where it is shown."""
    return 100.0 if is_share(measure) else 1.0


def write_number(measure: str, value: float) -> str:
    """A metric, already in the unit it is shown in, with the digits that say something.

    >>> write_number("val_accuracy", 81.26), write_number("num_messages", 10858.0), write_number("cpu_seconds", 0.0312)
    ('81.3', '10,858', '0.0312')
    """
    if is_share(measure):
        return f"{value:.1f}"
    if value == int(value) and abs(value) >= 1:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def words(measure: str) -> str:
    """A metric's name in words, with its unit.

    >>> words("val_accuracy"), words("cpu_seconds_to_best"), words("test_accuracy_before")
    ('validation accuracy, percent', 'CPU seconds to best', 'test accuracy before, percent')
    """
    name = measure.replace("val_", "validation ").replace("num_", "").replace("cpu_", "CPU ").replace("_", " ")
    return name + (", percent" if is_share(measure) else "")
