"""The report of one run as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import gzip
import json
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpnn.check import install_command
from gpnn.explain import Explanation
from gpnn.report.cost import time_memory
from gpnn.report.drawing import drawing
from gpnn.report.nodes import explanations, lead_of, nodes, parts_of
from gpnn.report.numbers import numbers
from gpnn.report.predictions import calibration, classes
from gpnn.report.record import Chart, Drawing, Listing, Record, Search, Section, Table
from gpnn.report.setup import configuration, environment, notes, phases, reproduce, subgraphs
from gpnn.report.states import states
from gpnn.report.verdict import learning_curves, race, traffic, verdict
from gpnn.storage.atomic import finite, write_text
from gpnn.text import metric_text, metric_words, percent, value_text
from gpnn.train.task import shown_metrics

SECTIONS: dict[str, Callable[[Record], Section | None]] = {
    "verdict": verdict,
    "notes": notes,
    "nodes": nodes,
    "explanations": explanations,
    "classes": classes,
    "numbers": numbers,
    "calibration": calibration,
    "race": race,
    "curves": learning_curves,
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
_KINDS = {Chart: "chart", Table: "table", Search: "search", Drawing: "drawing", Listing: "listing"}
NEEDED = ("plotly", "jinja2")


def write_report(record: Record, path: Path) -> None:
    """Write the report of one run: one HTML file that needs nothing else, atomically.

    Raises:
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    sections = [section for make in SECTIONS.values() if (section := make(record)) is not None]
    cards = headline_metrics(record)
    write_text(path, render(f"{record.name} · {record.run}", record.name, f"run {record.run}", cards, sections))


def write_explanation(explanation: Explanation, path: Path) -> None:
    """Write why one node gets its prediction: one HTML file that needs nothing else, atomically.

    Raises:
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    section = Section("explanations", "Why this answer", lead_of(explanation), parts_of(explanation))
    shown, probability = value_text(explanation.prediction), explanation.probability
    cards = [("prediction", shown), *([] if probability is None else [("probability", percent(probability))])]
    title = f"Why {explanation.node} is predicted as {shown}"
    write_text(path, render(title, str(explanation.node), "one node, explained", cards, [section]))


def headline_metrics(record: Record) -> list[tuple[str, str]]:
    """The metrics at the top: name and value."""
    metrics = record.metrics
    cards = []
    for split in ("test", "val"):
        for name in shown_metrics(metrics)[:2]:
            value = metrics.get(f"{split}_{name}")
            if value is not None:
                cards.append((metric_words(f"{split}_{name}"), metric_text(name, value)))
    counts = {
        "nodes": "num_nodes",
        "edges": "num_edges",
        "subgraphs": "num_parts",
        "rounds": "num_rounds",
        "parameters": "num_parameters",
        "messages per epoch": "num_messages",
    }
    cards += [(name, f"{metrics[key]:,}") for name, key in counts.items() if metrics.get(key) is not None]
    if metrics.get("seconds") is not None:
        cards.append(("seconds of training", f"{metrics['seconds']:.1f}"))
    return cards


def render(title: str, heading: str, below: str, cards: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The report as text; every string that comes from the user is escaped by the template or by `script_json`."""
    import jinja2

    folder = Path(__file__).parent
    template = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string((folder / "report.html").read_text(encoding="utf-8"))
    charts = {part.name: _plain(part) for section in sections for part in section.parts if isinstance(part, Chart)}
    return template.render(
        title=title,
        heading=heading,
        below=below,
        cards=cards,
        sections=[(section, [(_KINDS[type(part)], part) for part in section.parts]) for section in sections],
        style=(folder / "report.css").read_text(encoding="utf-8"),
        script=(folder / "report.js").read_text(encoding="utf-8"),
        charts=script_json(charts),
        plotly=plotly_script() if charts else "",
        nonce=secrets.token_urlsafe(16),
    )


def _plain(chart: Chart) -> dict[str, Any]:
    return {"views": chart.views, "layout": chart.layout, "points": chart.points, "ground": chart.ground}


def can_write() -> bool:
    """Whether the libraries that a report is made with are installed."""
    return all(find_spec(name) is not None for name in NEEDED)


def advice() -> str:
    """The message of a run whose report cannot be written, with the command that installs what it needs."""
    return f"report.html not written: {install_command('report')}"


def check_extra() -> None:
    """Raise ImportError, with the way out, unless a report can be written."""
    if not can_write():
        raise ImportError(f"A report needs plotly and jinja2: {install_command('report')}")


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no text in it can end the element or open a comment.

    >>> script_json({"label": "</script>"})
    '{"label":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def plotly_script() -> str:
    """plotly.js as the installed package holds it, compressed to base64: 2 MB of text instead of 4.8."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    code = (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(code, 6, mtime=0)).decode()
