"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpnn.text import value_text

PIPE_WIDTH = 160


def output() -> Console:
    """The console of results; wide where it is not a terminal, so that files and pipes hold whole tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def messages(*, silent: bool = False) -> Console:
    """The console of progress and messages; one that is silent prints nothing."""
    return Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on one line of standard output; numbers that JSON cannot hold become null."""
    from gpnn.storage.atomic import finite

    typer.echo(json.dumps(finite(value), allow_nan=False, default=str))


def print_notes(notes: Iterable[Any] | None, console: Console) -> None:
    """Print notes, whatever prints as a sentence, one per line."""
    for note in notes or ():
        console.print(f"note: {note}", markup=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """A table whose first column is text and whose others are numbers."""
    result = Table(title=None if title is None else escape(title), title_justify="left")
    for number, column in enumerate(columns):
        result.add_column(escape(column), justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        result.add_row(*(escape(value_text(value)) for value in row))
    return result


def nested_rows(values: Mapping[str, Any], indent: str = "") -> list[tuple[str, Any]]:
    """A mapping as rows of a table; a mapping inside it becomes indented rows.

    >>> nested_rows({"nodes": 3, "classes": {"cat": 2}})
    [('nodes', 3), ('classes', ''), ('  cat', 2)]
    """
    rows: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += [(f"{indent}{name}", ""), *nested_rows(value, indent + "  ")]
        else:
            rows.append((f"{indent}{name}", value))
    return rows
