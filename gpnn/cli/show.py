"""What commands print: tables on standard output, everything else on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 160


def output() -> Console:
    """The console of results; wide where it is not a terminal, so that files and pipes hold whole tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def messages() -> Console:
    """The console of progress and remarks."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """A table whose first column is text and whose others are figures."""
    result = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        result.add_column(column, justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        result.add_row(*map(figure, row))
    return result


def figure(value: Any) -> str:
    """A value as a table shows it.

    >>> [figure(value) for value in (None, True, 1234567, 0.25, 12.34567, "cora")]
    ['-', 'yes', '1,234,567', '0.25', '12.35', 'cora']
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return str(value)


def percent(value: float | None) -> str:
    """A fraction as a percentage with one decimal."""
    return "-" if value is None else f"{100 * value:.1f} %"
