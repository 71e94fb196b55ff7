"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpnn.progress import console
from gpnn.text import metric_text, metric_words, printable, value_text

if TYPE_CHECKING:
    from gpnn.build import Built
    from gpnn.race import RaceRecord
    from gpnn.train import RunFolder


PIPE_WIDTH = 160


def output() -> Console:
    """The console of results; wide where it is not a terminal, so that files and pipes hold whole tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def messages(*, silent: bool = False) -> Console:
    """The console of progress and messages; one that is silent prints nothing."""
    return console(silent=silent)


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on one line of standard output; numbers that JSON cannot hold become null."""
    from gpnn.storage.atomic import finite

    typer.echo(json.dumps(finite(value), allow_nan=False, default=str))


def print_notes(notes: Iterable[Any] | None, console: Console) -> None:
    """Print notes, whatever prints as a sentence, one per line."""
    for note in notes or ():
        console.print(f"note: {printable(str(note))}", markup=False)


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


def headline(built: Built) -> str:
    """Data, schedule and process group in a line."""
    from gpnn.distributed import group_of
    from gpnn.train.task import task_of

    config, totals, group = built.config, built.totals, group_of(built.plan)
    processes = f" in {group.size} processes ({group.backend})" if group.size > 1 else ""
    parts = f"{totals.num_parts} subgraphs{processes}, " if totals.num_parts > 1 else ""
    return (
        f"{Path(config.data.name).name}: {totals.num_nodes:,} nodes, {totals.num_edges:,} edges, "
        f"{task_of(built.data).summary}; {parts}{built.plan.num_rounds} rounds, "
        f"{config.model.hidden_channels} channels, {built.plan.device}"
    )


def show_trial(row: dict[str, Any]) -> None:
    """A trial's settings and its score."""
    score = _score(row["metric"], row)
    settings = " ".join(f"{key}={value}" for key, value in row["settings"].items()) or "as configured"
    messages().print(f"trial {row['trial'] + 1}: validation {row['metric']} {score}  {settings}", markup=False)


def show_race(record: RaceRecord) -> None:
    """What a race decided, or the last row of it."""
    console = messages()
    if not record.rows:
        how = "measured" if record.measured else "estimated"
        takes = f"at most {record.expected:,.0f} s of a budget of {record.budget:,.0f} s"
        console.print(f"race: {takes}; an epoch of {_seconds(record.costs)} ({how})", markup=False)
        if record.left_out:
            longer = f"an epoch of {_seconds(record.left_out)}; a longer budget=… includes them"
            console.print(f"race: too long for it: {longer}", markup=False)
        for name, reason in (record.too_large or {}).items():
            console.print(f"race: {name} does not fit in memory: {reason}", markup=False)
        return
    row = record.rows[-1]
    stage = "again" if row["name"] not in record.costs else f"rung {row['rung'] + 1}"
    text = race_row(record.metric, row)
    if record.blend is not None and row["name"] in record.costs:
        stage, text = "blend", blend_text(record)
    console.print(f"race, {stage}: {text}", markup=False)


def _seconds(costs: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.3g} s" for name, seconds in costs.items())


def blend_text(record: RaceRecord) -> str:
    """What the weights of a blend are, in words."""
    weights, gain = (record.blend.weights, record.blend.gain) if record.blend is not None else ({}, None)
    kept = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items()) if len(weights) > 1 else record.winner
    if gain is None:
        return f"none was tried; {kept} is kept"
    return f"{-gain:+.4f} validation loss by cross-fitting; kept: {kept}"


def race_row(metric: str, row: Mapping[str, Any]) -> str:
    """A row of a race in words.

    >>> race_row("roc_auc", {"name": "gated", "value": 0.5, "epochs": 50, "seconds": 2.5})
    'gated, validation ROC AUC 50.0 %, 50 epochs, 2.5 s'
    """
    reached = f"{metric_words(f'val_{metric}')} {_score(metric, row)}"
    return f"{row['name']}, {reached}, {row['epochs']:,} epochs, {row['seconds']:.1f} s"


def _score(metric: str, row: Mapping[str, Any]) -> str:
    """The validation metric of a trial; those of which less is better are noted by their negative."""
    from gpnn.train.metrics import merit

    return "not finite" if row["value"] is None else metric_text(metric, merit(metric, row["value"]))


def show_result(run: RunFolder, *, quiet: bool, json: bool) -> None:
    """The metrics and where they lie: a table, one JSON object, or the folder alone."""
    metrics, baselines = run.read_metrics(), run.read_baselines()
    if json:
        print_json({"run": str(run.path), **metrics, "baselines": baselines})
    elif quiet:
        typer.echo(str(run.path))
    else:
        places = [("run folder", str(run.path))]
        if run.report.exists():
            places.append(("report", str(run.report)))
        rows = [(*row, *_beside(row[0], baselines)) for row in [*_results(metrics), *places]]
        output().print(table(["", "result", *baselines], rows))


def _beside(shown: str, baselines: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What plain methods have where the result has a metric, or their seconds; nothing elsewhere."""
    keys = {metric_words(key): key for found in baselines.values() for key in found}
    key = keys.get(shown, "")
    values = [found.get(key) for found in baselines.values()]
    if key == "seconds":
        return ["" if value is None else f"{value:.1f}" for value in values]
    return ["" if value is None else metric_text(key, value) for value in values]


def _results(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of the final table."""
    for name in ("metric", "seconds", "epochs", "best_epoch", "num_messages"):
        if metrics.get(name) is None:
            raise ValueError(f"The metrics of a run must have its {name}. They do not.")
    from gpnn.train.task import shown_metrics

    rows = []
    for name in shown_metrics(metrics):
        for key in (f"val_{name}", f"test_{name}"):
            if key in metrics:
                rows.append((metric_words(key), metric_text(key, metrics[key])))
    return [
        *rows,
        ("seconds", f"{metrics['seconds']:.1f}"),
        ("epochs (best)", f"{metrics['epochs']:,} ({metrics['best_epoch']:,})"),
        ("messages per epoch", f"{metrics['num_messages']:,}"),
    ]
