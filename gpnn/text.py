"""Values as text, and as HTML that a notebook shows: tables, bars, curves, and a bar that moves."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
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


SPLITS = {"val_": "validation ", "test_": "test ", "train_": "training "}
METRICS = {
    "macro_f1": "macro F1",
    "roc_auc": "ROC AUC",
    "r2": "R²",
    "mae": "MAE",
    "rmse": "RMSE",
    "spearman": "Spearman",
}


def metric_text(name: str, value: float | None) -> str:
    """A metric's value: a percentage where it is a share, else four digits; a dash where there is none.

    >>> metric_text("val_accuracy", 0.912), metric_text("mae", 1234.56), metric_text("test_r2", -4e-5)
    ('91.2 %', '1235', '0.000')
    """
    bare = _without_split(name)[1]
    if value is None or bare in SHARES:
        return percent(value)
    return f"{round(value, 3) + 0.0:.3f}" if bare in ("r2", "spearman") else f"{value:.4g}"  # 0.000, not -0.000


def metric_words(name: str) -> str:
    """A metric in words.

    >>> metric_words("train_macro_f1"), metric_words("test_average_precision"), metric_words("r2")
    ('training macro F1', 'test average precision', 'R²')
    """
    split, bare = _without_split(name)
    return SPLITS.get(split, "") + METRICS.get(bare, bare.replace("_", " "))


def _without_split(name: str) -> tuple[str, str]:
    split = next((each for each in SPLITS if name.startswith(each)), "")
    return split, name.removeprefix(split)


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


def docstring_entries(text: str) -> dict[str, str]:
    """The sentences of a docstring's Args or Attributes, by name, roles of links left out.

    >>> docstring_entries("Doc.\\n\\nArgs:\\n    a, b: see :func:`gpnn.lower`,\\n        and use it.\\n")
    {'a': 'see `lower`, and use it.', 'b': 'see `lower`, and use it.'}
    """
    match = re.search(r"^(?:Args|Attributes):\n((?:    .*\n?|\n(?=    ))+)", text, re.MULTILINE)
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w)", match[1].rstrip()) if match else ():
        names, _, sentence = entry.strip().partition(": ")
        about = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", " ".join(sentence.split()))
        found |= dict.fromkeys(names.split(", "), about)
    return found


Point = tuple[float, float]
SECONDS = 0.1  # between two updates of a bar
WIDTH, HEIGHT = 360.0, 120.0  # of a picture
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")


def in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this process."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """A bar in the output of a cell, which it leaves empty; as much of rich's `Progress` as is used."""

    def __init__(self) -> None:
        self.task_ids: list[Any] = [0]
        self._handle: Any = None
        self._task: dict[str, Any] = {}
        self._shown = 0.0

    def start(self) -> None:
        from IPython.display import HTML, display

        self._handle = display(HTML(""), display_id=True)

    def add_task(self, description: str, total: float | None = None, facts: str = "") -> None:
        self._task = {"description": description, "total": total, "completed": 0, "facts": facts}
        self._show(force=True)

    def remove_task(self, task: int) -> None:
        self._task = {}

    def update(self, task: int, **values: Any) -> None:
        self._task |= values
        self._show(force=self._task["completed"] == self._task["total"])

    def stop(self) -> None:
        self._task = {}
        self._show(force=True)

    def _show(self, *, force: bool) -> None:
        from IPython.display import HTML

        now = time.monotonic()
        if self._handle is not None and (force or now - self._shown >= SECONDS):
            self._shown = now
            self._handle.update(HTML(_bar(**self._task) if self._task else ""))


def _bar(description: str, total: float | None, completed: float, facts: str) -> str:
    place = "" if total is None else f' value="{completed:g}" max="{total:g}"'
    return f"{escape(description)} <progress{place}></progress> {escape(facts)}"


def table_html(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table; numbers are as :func:`gpnn.text.value_text` has them.

    >>> table_html(["class", "nodes"], [["a<b", 1200]])
    '<table><tr><th>class</th><th>nodes</th></tr><tr><td>a&lt;b</td><td>1,200</td></tr></table>'
    """
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    lines = ["".join(f"<th>{escape(each)}</th>" for each in head)]
    lines += ["".join(f"<td>{escape(value_text(each))}</td>" for each in row) for row in rows]
    return f"<table>{title}{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def bars_html(values: Sequence[float], title: str) -> str:
    """A picture of values, none negative, as bars side by side.

    >>> bars_html([1, 3], "sizes").count("<rect")
    2
    """
    most, step = max([*values, 1e-300]), WIDTH / max(1, len(values))
    shapes = (
        f'<rect x="{place * step:.2f}" y="{HEIGHT * (1 - value / most):.2f}" width="{0.9 * step:.2f}" '
        f'height="{HEIGHT * value / most:.2f}" fill="{COLOURS[0]}"/>'
        for place, value in enumerate(values)
    )
    return _picture("".join(shapes), title)


def curves_html(curves: Mapping[str, Sequence[Point]], title: str) -> str:
    """A picture of curves, each in a scale of its own from its least value to its largest.

    >>> picture = curves_html({"loss": [(1, 2.0), (2, 1.0)], "empty": []}, "training")
    >>> picture.count("<polyline"), "loss: 2 to 1" in picture
    (1, True)
    """
    shapes, place = [], 0
    for name, points in curves.items():
        if not points:
            continue
        colour = COLOURS[place % len(COLOURS)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in _scale(points))
        ends = f"{name}: {value_text(float(points[0][1]))} to {value_text(float(points[-1][1]))}"
        shapes.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        at = f'x="{WIDTH + 8:.0f}" y="{14 + 16 * place}" font-size="12"'
        shapes.append(f'<text {at} fill="{colour}">{escape(ends)}</text>')
        place += 1
    return _picture("".join(shapes), title, WIDTH + 220)


def _scale(points: Sequence[Point]) -> list[Point]:
    """The points in the picture's own units, y downwards."""
    lows, highs = zip(*((min(each), max(each)) for each in zip(*points)))
    wide, high = (last - first or 1.0 for first, last in zip(lows, highs))
    return [(WIDTH * (x - lows[0]) / wide, HEIGHT * (1 - (y - lows[1]) / high)) for x, y in points]


def _picture(shapes: str, title: str, width: float = WIDTH) -> str:
    size = f'width="{width:.0f}" height="{HEIGHT:.0f}" viewBox="0 -2 {width:.0f} {HEIGHT + 4:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><title>{escape(title)}</title>{shapes}</svg>'
