"""The page of one run."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpnn.report.calibration import calibration
from gpnn.report.classes import classes
from gpnn.report.content import Chart, Drawing, Listing, Section, Table, percent
from gpnn.report.curves import learning_curves
from gpnn.report.drawing import drawing
from gpnn.report.embed import check_extra, plotly_script, script_json
from gpnn.report.notes import notes
from gpnn.report.phases import phases
from gpnn.report.setup import configuration, environment, reproduce
from gpnn.report.shared_record import AnyRecord
from gpnn.report.states import states
from gpnn.report.subgraphs import subgraphs
from gpnn.report.time_memory import time_memory
from gpnn.report.traffic import traffic
from gpnn.train.atomic import write_text

SECTIONS: dict[str, Callable[[AnyRecord], Section | None]] = {
    "notes": notes,
    "curves": learning_curves,
    "classes": classes,
    "calibration": calibration,
    "graph": drawing,
    "states": states,
    "partition": subgraphs,
    "schedule": phases,
    "cost": time_memory,
    "traffic": traffic,
    "configuration": configuration,
    "environment": environment,
    "reproduce": reproduce,
}
_KINDS = {Chart: "chart", Table: "table", Drawing: "drawing", Listing: "listing"}


def write_report(record: AnyRecord, path: Path) -> None:
    """Write the page of one run: one HTML file that needs nothing else, atomically.

    Raises:
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    sections = [section for make in SECTIONS.values() if (section := make(record)) is not None]
    cards = headline(record)
    write_text(path, render(f"{record.name} · {record.run}", record.name, f"run {record.run}", cards, sections))


def headline(record: AnyRecord) -> list[tuple[str, str]]:
    """The figures at the top: name and value."""
    metrics = record.metrics
    names = ("macro_f1", "roc_auc") if record.multi_label else ("accuracy", "recall")
    cards = []
    for split, word in (("test", "test"), ("val", "validation")):
        for name in names:
            value = metrics.get(f"{split}_{name}")
            if value is not None:
                cards.append((f"{word} {name.replace('_', ' ')}", percent(value)))
    counts = {
        "nodes": "num_nodes",
        "edges": "num_edges",
        "subgraphs": "num_parts",
        "rounds": "num_rounds",
        "parameters": "num_parameters",
        "messages an epoch": "num_messages",
    }
    cards += [(name, f"{metrics[key]:,}") for name, key in counts.items() if metrics.get(key) is not None]
    if metrics.get("seconds") is not None:
        cards.append(("seconds of training", f"{metrics['seconds']:.1f}"))
    return cards


def render(title: str, heading: str, below: str, cards: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The page as text; every string that comes from the user is escaped by the template or by `script_json`."""
    import jinja2

    folder = Path(__file__).parent
    template = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string((folder / "page.html").read_text(encoding="utf-8"))
    charts = {part.name: _plain(part) for section in sections for part in section.parts if isinstance(part, Chart)}
    return template.render(
        title=title,
        heading=heading,
        below=below,
        cards=cards,
        sections=[(section, [(_KINDS[type(part)], part) for part in section.parts]) for section in sections],
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        charts=script_json(charts),
        plotly=plotly_script(),
        nonce=secrets.token_urlsafe(16),
    )


def _plain(chart: Chart) -> dict[str, Any]:
    return {"views": chart.views, "layout": chart.layout, "points": chart.points, "ground": chart.ground}
