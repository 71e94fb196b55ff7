"""Results of a benchmark as lines of JSON, one per training or race, and the page of all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The finished lines; none where there is no file yet."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def row(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def write_lines_page(
    file: Path, title: str, parts: Sequence[str], lines: Sequence[dict[str, Any]], count: str, command: str
) -> None:
    """Write the page beside a file of lines: a title, its parts, how much was run, the machines and the command."""
    machines = "; or ".join(dict.fromkeys(each["machine"] for each in lines))
    end = f"{count}\n\nMachine: {machines}.\nCommand: {command}\n"
    file.with_suffix(".md").write_text("\n\n".join([f"# {title}", *parts, end]))
