"""What `gpnn train` shows of a run: what it trains, the trials of its search, and its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gpnn.cli.show import messages, output, print_json, table
from gpnn.text import percent

if TYPE_CHECKING:
    from gpnn.build import Built
    from gpnn.train import RunFolder


def headline(built: Built) -> str:
    """Data, schedule and process group in a line."""
    from gpnn.distributed import group_of

    config, totals, group = built.config, built.totals, group_of(built.plan)
    processes = f" in {group.size} processes ({group.backend})" if group.size > 1 else ""
    parts = f"{totals.num_parts} subgraphs{processes}, " if totals.num_parts > 1 else ""
    return (
        f"{Path(config.data.name).name}: {totals.num_nodes:,} nodes, {totals.num_edges:,} edges, "
        f"{built.data.num_classes} classes; {parts}{built.plan.num_rounds} rounds, "
        f"{config.model.hidden_channels} channels, {built.plan.device}"
    )


def show_trial(row: dict[str, Any]) -> None:
    """A trial's settings and its score."""
    value = row["value"]
    score = "not finite" if value is None else percent(value)
    settings = " ".join(f"{key}={value}" for key, value in row["settings"].items()) or "as configured"
    messages().print(f"trial {row['trial'] + 1}: validation {row['metric']} {score}  {settings}", markup=False)


def show_result(run: RunFolder, *, quiet: bool, json: bool) -> None:
    """The metrics and where they lie: a table, one JSON object, or the folder alone."""
    metrics = run.read_metrics()
    if json:
        print_json({"run": str(run.path), **metrics})
    elif quiet:
        typer.echo(str(run.path))
    else:
        places = [("run folder", str(run.path))]
        if run.report.exists():
            places.append(("report", str(run.report)))
        output().print(table(["", "result"], [*_results(metrics), *places]))


def _results(metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of the final table."""
    for name in ("metric", "seconds", "epochs", "best_epoch", "num_messages"):
        if metrics.get(name) is None:
            raise ValueError(f"The metrics of a run must have its {name}. They do not.")
    shown = ["macro_f1", "roc_auc", "average_precision"] if metrics.get("multi_label") else ["accuracy", "recall"]
    if metrics["metric"] not in (*shown, "loss"):
        shown.append(metrics["metric"])
    rows = []
    for name in shown:
        for split, word in (("val", "validation"), ("test", "test")):
            if f"{split}_{name}" in metrics:
                rows.append((f"{word} {name.replace('_', ' ')}", percent(metrics[f"{split}_{name}"])))
    return [
        *rows,
        ("seconds", f"{metrics['seconds']:.1f}"),
        ("epochs (best)", f"{metrics['epochs']:,} ({metrics['best_epoch']:,})"),
        ("messages per epoch", f"{metrics['num_messages']:,}"),
    ]
