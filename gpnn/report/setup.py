"""What the run was: its notes, its configuration, its environment, and how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from gpnn.report.content import Listing, Section, Table
from gpnn.report.record import Record

HIDDEN = ("command", "packages", "settings")  # shown in places of their own


def configuration(record: Record) -> Section:
    """The run's settings, each "auto" replaced by what was chosen."""
    lead = "Every setting of the run; what was left to choose stands as it was chosen."
    return Section("configuration", "Configuration", lead, [Listing("config.toml", record.config)], folded=True)


def environment(record: Record) -> Section:
    """Versions and machine."""
    packages = record.environment.get("packages", {})
    machine = {key: value for key, value in record.environment.items() if key not in HIDDEN}
    parts = [
        Table(title, ("", ""), _rows(values), text=True)
        for title, values in (("Machine", machine), ("Packages", packages))
        if values
    ]
    return Section("environment", "Environment", "Where the run took place.", parts, folded=True)


def reproduce(record: Record) -> Section:
    """The commands that make the run again."""
    version = record.environment.get("gpnn", "")
    lead = (
        "The same seed on the same machine gives the same bits. On another machine, or with other versions, sums are "
        "rounded differently."
    )
    start = "gpnn"
    if len(record.shares) > 1:
        start = f"torchrun --nproc-per-node {len(record.shares)} -m gpnn"
    again = f"{start} train --config config.toml --out again"
    parts = [Listing(f"With gpnn {version} installed and the configuration above saved as config.toml", again)]
    if record.environment.get("command"):
        command = command_line(record.environment["command"])
        parts.append(Listing("The command it was", start + command.removeprefix("gpnn")))
    command = "gpnn report " + shlex.quote(record.run)
    return Section("reproduce", "Reproduce", lead, [*parts, Listing("This report, written again", command)])


def command_line(words: list[str]) -> str:
    """The command as one types it.

    >>> command_line(["/usr/bin/gpnn", "train", "my graph"])
    "gpnn train 'my graph'"
    """
    first, *rest = words
    name = PurePath(first).name
    return shlex.join(["gpnn" if name == "__main__.py" else name, *rest])


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, "–" if value is None else str(value)) for key, value in values.items()]


def notes(record: Record) -> Section | None:
    """Every note with the setting that mends it; None where there are none."""
    if not record.notes:
        return None
    lead = "What was decided on your behalf, and what of the data this run does not use."
    rows = [(note.what, note.setting) for note in record.notes]
    return Section("notes", "Warnings", lead, [Table("", ("note", "what mends it"), rows, wide=True, text=True)])
