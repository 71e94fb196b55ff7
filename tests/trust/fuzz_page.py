"""The committed page of what fuzzing found: a table of damaged files, and one of files that coverage guided.

Figures are kept in a JSON file, so that some readers can be run anew; the page beside it is made of all of them.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from gpnn.storage.atomic import wait_for_folder, write_json, write_text
from tests.trust.readers import READERS

HEAD = """# Damaged and hostile files

    {command}

Machine: {machine}.
"""
DAMAGED = """
Every reader of files that others wrote gets files that were valid and are now cut, flipped, spliced or have extreme
numbers, and every file of a table made to hurt (`tests/trust/hostile.py`) in the place of each of its own. It may
answer soundly (for checkpoints: with exactly what was saved) or refuse in one sentence; anything else, a program
started, a connection, a file written, more than 1 GiB or 5 seconds, is a failure and ends the command with 1. Seconds
are of the processor; memory is what reading took beyond the process that had imported all and read the undamaged files.
The rows were gathered at several times; a reader of which a case had failed ran again from the start once mended.
"""
GUIDED = """
## Guided by coverage

    {command}

The same readers under atheris: inputs that reach new branches of `gpnn` are kept and changed further. Edges are those
of the control flow that were reached, features what libFuzzer counts on them.
"""


def note(file: Path, kind: str, command: str, results: dict[str, dict[str, Any]]) -> None:
    """Keep results by reader under `kind` ("damaged" or "guided") and write the page anew, both atomically."""
    with wait_for_folder(file.parent):  # several readers may be fuzzed at once
        noted = json.loads(file.read_text()) if file.exists() else {}
        here = noted.setdefault(kind, {"readers": {}})
        here |= {"command": command}
        found = here["readers"] | {name: result | {"machine": machine()} for name, result in results.items()}
        here["readers"] = {name: found[name] for name in READERS if name in found}
        write_json(file, noted)
        write_text(file.with_suffix(".md"), page(noted))


def unfinished(file: Path, name: str, cases: int) -> dict[str, Any]:
    """What an earlier call noted of a reader, where it was ended before so many cases and none had failed."""
    noted = json.loads(file.read_text()) if file.exists() else {}
    found: dict[str, Any] = noted.get("damaged", {}).get("readers", {}).get(name, {})
    return found if found.get("next", cases) < cases and not found["failures"] else {}


def join(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The tally of two parts of a reader's cases; the first may be empty."""
    sums, most = ("cases", "read", "refused", "seconds", "failures"), ("slowest", "memory", "sentences")
    joined = {name: one[name] + other[name] if one else other[name] for name in sums}
    return other | joined | {name: max(one.get(name, 0), other.get(name, 0)) for name in most}


def page(noted: dict[str, Any]) -> str:
    """The page as Markdown."""
    damaged, guided = noted.get("damaged"), noted.get("guided")
    text = HEAD.format(command=(damaged or guided)["command"], machine=machines((damaged or guided)["readers"]))
    if damaged:
        text += DAMAGED + "\n" + damaged_table(damaged["readers"])
    if guided:
        text += GUIDED.format(command=guided["command"]) + "\n" + guided_table(guided["readers"])
    return text


def machines(found: dict[str, dict[str, Any]]) -> str:
    """The machine of most results, and with their names the others."""
    places: dict[str, list[str]] = {}
    for name, result in found.items():
        places.setdefault(result["machine"], []).append(name)
    first, *others = sorted(places, key=lambda place: -len(places[place]))
    return ".\n".join([first, *(f"Machine of {', '.join(places[place])}: {place}" for place in others)])


def damaged_table(readers: dict[str, dict[str, Any]]) -> str:
    names = ("reader", "cases", "answers", "refusals", "failures", "CPU s", "slowest, s", "memory, MiB")
    rows = [
        (
            name,
            f"{tally['cases']:,}",
            f"{tally['read']:,}",
            f"{tally['refused']:,}",
            len(tally["failures"]),
            f"{tally['seconds']:.0f}",
            f"{tally['slowest']:.2f}",
            f"{tally['memory'] / 2**20:.0f}",
        )
        for name, tally in readers.items()
    ]
    return table(names, rows)


def guided_table(readers: dict[str, dict[str, Any]]) -> str:
    names = ("reader", "inputs", "failures", "s", "edges", "features", "kept inputs")
    rows = [
        (
            name,
            f"{run['inputs']:,}",
            run["failures"],
            f"{run['seconds']:.0f}",
            f"{run['edges']:,}",
            f"{run['features']:,}",
            f"{run['kept']:,}",
        )
        for name, run in readers.items()
    ]
    return table(names, rows)


def table(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [names, ["---"] + ["---:"] * (len(names) - 1), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def machine() -> str:
    import torch

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB; {versions}"
