"""An experiment's results as Markdown, CSV and pictures."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from html import escape
from pathlib import Path

from experiments.harness.entry import Entry, by_place, find_entries, plain_numbers, printed
from experiments.harness.measure import scale, words, write_number
from experiments.harness.pairs import pair_lines
from experiments.harness.pictures import PICTURES
from experiments.harness.results import Results
from experiments.harness.spec import Experiment
from gpnn.storage.atomic import write_text


def write_report(experiment: Experiment, results: Results, folder: Path, command: str) -> list[Path]:
    """Write NAME.md, NAME.csv and, where matplotlib is installed, NAME.svg; the files written."""
    entries = find_entries(experiment, results)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{experiment.name}.md", folder / f"{experiment.name}.csv"]
    write_text(files[1], _csv(entries))
    pictures = _draw(experiment, entries, results, folder)
    lines = [
        f"# {experiment.title}",
        "",
        f"{_explain(experiment, entries)}.",
        "",
        *_tables(experiment, entries),
        *(line for caption, file in pictures for line in (f"![{caption}]({file.name})", "")),
        *pair_lines(experiment, results),
        *_far_lines(experiment, entries),
        *_remarks(experiment, results),
        f"- Machine: {'; or '.join(_machines(experiment, results))}.",
        f"- Command: `{command}`",
    ]
    write_text(files[0], "\n".join(lines) + "\n")
    return files + [file for _, file in pictures]


def _draw(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """The pictures, each with its caption; none without matplotlib."""
    try:
        return PICTURES[experiment.picture](experiment, entries, results, folder)
    except ImportError:
        return []


def _explain(experiment: Experiment, entries: list[Entry]) -> str:
    names = ", ".join(f"`{measure}`" for measure in experiment.measures)
    percent = " in percent" if scale(experiment.measure) == 100 and not experiment.also else ""
    many = f"mean ± sample standard deviation over {experiment.seeds} seeds"
    explained = f"{names}{percent}: {many if experiment.seeds > 1 else 'one run each'}"
    if any(0 < entry.seeds < experiment.seeds for entry in entries):
        explained += " (in brackets how many, where they are fewer)"
    if any(row.paper for row in experiment.rows):
        explained += f"; in parentheses {experiment.source}'s figure and how far ours is from it"
    if any(entry.is_far for entry in entries):
        explained += ", with † where that is more than two of our deviations (of a single run, any difference)"
    return explained


def _tables(experiment: Experiment, entries: list[Entry]) -> Iterator[str]:
    """One table a measure; with a single column, one table whose columns are the measures."""
    columns, measures = [column.name for column in experiment.columns], experiment.measures
    if len(columns) == 1 and len(measures) > 1:
        yield from _table(experiment, entries, [(columns[0], each) for each in measures], list(map(words, measures)))
        return
    for measure in measures:
        if len(measures) > 1:
            yield from (f"**{words(measure)}**", "")
        yield from _table(experiment, entries, [(column, measure) for column in columns], columns)


def _table(
    experiment: Experiment, entries: list[Entry], places: list[tuple[str, str]], heading: list[str]
) -> Iterator[str]:
    place = by_place(entries)
    yield "| | " + " | ".join(map(plain, heading)) + " |"
    yield "|---|" + "---|" * len(heading)
    for row in experiment.rows:
        shown = []
        for column, measure in places:
            entry, paper = place.get((row.name, column, measure)), printed(experiment, row, column, measure)
            shown.append(_show(entry, experiment.seeds) if entry and entry.seeds else _missing(measure, paper))
        yield f"| {plain(row.name)} | " + " | ".join(shown) + " |"
    yield ""


def plain(name: str) -> str:
    """A name as Markdown shows it: no markup, and no further column.

    >>> plain("<i>a</i>")
    '&lt;i&gt;a&lt;/i&gt;'
    """
    return " ".join(escape(name, quote=False).replace("|", "&#124;").split())


def _missing(measure: str, paper: float | None) -> str:
    return "–" if paper is None else f"– ({write_number(measure, paper)})"


def _show(entry: Entry, seeds: int) -> str:
    text = write_number(entry.measure, entry.mean or 0.0)
    if entry.seeds > 1:  # one run has no deviation
        text += f" ± {write_number(entry.measure, entry.deviation or 0.0)}"
    if entry.seeds < seeds:
        text += f" [{entry.seeds}]"
    if entry.paper is not None and entry.difference is not None:
        text += f" ({write_number(entry.measure, entry.paper)}, {_signed(entry)}{'†' if entry.is_far else ''})"
    return text


def _far_lines(experiment: Experiment, entries: list[Entry]) -> Iterator[str]:
    """Row by row, what is more than two deviations from print, and why."""
    far = [entry for entry in entries if entry.is_far]
    if far:
        yield from ("More than two deviations from print:", "")
    for row in experiment.rows:
        own = ", ".join(_distance(experiment, entry) for entry in far if entry.row == row.name)
        if own:
            yield f"- **{plain(row.name)}**: {own}. {row.why or 'We did not trace why.'}"
    if far:
        yield ""


def _distance(experiment: Experiment, entry: Entry) -> str:
    """Where an entry is far from print, and how far: by its column, its measure, or both."""
    names = [entry.column] if len(experiment.columns) > 1 else []
    names += [words(entry.measure)] if entry.measure in experiment.also or not names else []
    return f"{', '.join(names)} {_signed(entry)}"


def _signed(entry: Entry) -> str:
    difference = write_number(entry.measure, entry.difference or 0.0)
    return difference if difference.startswith("-") else f"+{difference}"


def _remarks(experiment: Experiment, results: Results) -> list[str]:
    cells = list(experiment.cells())
    runs, total = sum(cell.key in results.outcomes for cell in cells), sum(results.values(cells, "seconds"))
    left = len(cells) - runs
    missing = f"- {left} runs of {len(cells)} are not done yet; `gpnn experiment {experiment.name}` does them."
    return [
        *(f"- {note}" for note in experiment.notes),
        f"- {runs} runs" + (f", {total:,.0f} seconds of training in all." if total else "."),
        *([missing] if left else []),
    ]


def _machines(experiment: Experiment, results: Results) -> list[str]:
    """The machines that the finished cells were run on, those of most cells first; then how many cells name none."""
    found = (results.outcomes.get(cell.key) for cell in experiment.cells())
    names = Counter(outcome.metrics.get("machine") for outcome in found if outcome)
    number, unknown = names.total(), names.pop(None, 0)
    missing = [f"not recorded ({unknown} of {number} runs)"] if unknown else []
    return [str(name) for name, _ in names.most_common()] + missing


def _csv(entries: list[Entry]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([each.name for each in fields(Entry)])
    for entry in entries:
        row, column, measure, *numbers = plain_numbers(entry).values()
        writer.writerow([row, column, measure, *("" if number is None else f"{number:.6g}" for number in numbers)])
    return out.getvalue()
