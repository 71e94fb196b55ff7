"""Numbers and other values as text."""

from __future__ import annotations

from typing import Any


def percent(value: float | None) -> str:
    """A fraction as a percentage with one decimal, a dash where there is none.

    >>> percent(0.1234)
    '12.3 %'
    """
    return "–" if value is None else f"{100 * value:.1f} %"


SHARES = (
    "accuracy",
    "macro_f1",
    "roc_auc",
    "average_precision",
    "balanced_accuracy",
    "recall",
    "coverage",
    "calibration_error",
)


def metric_text(name: str, value: float | None) -> str:
    """A metric's value: a percentage where it is a share, else four digits; a dash where there is none.

    >>> metric_text("val_accuracy", 0.912), metric_text("mae", 1234.56)
    ('91.2 %', '1235')
    """
    if value is None or name.removeprefix("val_").removeprefix("test_").removeprefix("train_") in SHARES:
        return percent(value)
    return f"{value:.4g}"


def printable(text: str) -> str:
    """The text with control characters written out: a file's names must not steer the terminal.

    >>> print(printable("a\\x1b[31mb"))
    a\\x1b[31mb
    """
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


def size(num_bytes: float) -> str:
    """A number of bytes in the unit that suits it.

    >>> size(3_500_000)
    '3.3 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024 or unit == "GiB":
            break
        num_bytes /= 1024
    return f"{num_bytes:.0f} {unit}" if unit == "B" or num_bytes >= 100 else f"{num_bytes:.1f} {unit}"


def value_text(value: Any) -> str:
    """A value as a table shows it.

    >>> [value_text(value) for value in (None, True, 1234567, 0.25, 12.34567, "cora")]
    ['–', 'yes', '1,234,567', '0.25', '12.35', 'cora']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return printable(str(value))
