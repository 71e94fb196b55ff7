"""What the run was: notes, partition, schedule, settings, environment, how to repeat it; and the model card."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath, PurePosixPath
from typing import Any

from gpnn.partition import Quality
from gpnn.report.counts import SPLIT_NAMES, PhaseRow
from gpnn.report.record import Chart, Drawing, Listing, Record, Section, Table, Trace, bars, color
from gpnn.run.folder import RunFolder
from gpnn.schedule import draw_schedule
from gpnn.schedule.draw import MAX_NODES
from gpnn.storage.atomic import write_text
from gpnn.storage.read import read_json
from gpnn.text import metric_text, metric_words, percent, value_text
from gpnn.train.task import shown_metrics

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


MAX_BARS = 200
MAX_PHASES = 60
MAX_PANELS = 12


def subgraphs(record: Record) -> Section | None:
    """Nodes, halo and training labels of each subgraph, and what the cut costs; None without a partition."""
    quality = record.quality
    if quality is None:
        return None
    lead = (
        f"{quality.num_parts:,} subgraphs; {percent(quality.edge_cut)} of the edges run between them. The halo of a "
        "subgraph is the distinct nodes outside that send into it: rows to fetch before a cut phase."
    )
    if quality.num_parts > MAX_BARS:
        lead += f" Bars show the {MAX_BARS} largest."
    rows = [(name, value) for name, value in quality.summary().items() if value is not None]
    return Section(
        "partition", "Partition", lead, [_bars(quality), Table("The cut and the balance", ("", "value"), rows)]
    )


def _bars(quality: Quality) -> Chart:
    order = sorted(range(quality.num_parts), key=lambda part: -quality.sizes[part])[:MAX_BARS]
    columns = {"nodes": quality.sizes, "halo": quality.halo}
    views = {
        "nodes and halo": [_bar(name, number, order, values) for number, (name, values) in enumerate(columns.items())]
    }
    views["edge ends"] = [_bar("edge ends", 2, order, quality.edge_ends)]
    if quality.train_labels is not None:
        views["training labels"] = [_bar("training labels", 4, order, quality.train_labels)]
    layout = {
        "barmode": "group",
        "xaxis": {"type": "category", "title": {"text": "subgraph, largest first"}, "showgrid": False},
        "yaxis": {"tickformat": ",d"},
    }
    largest = max(quality.sizes)
    alt = f"The largest subgraph has {largest:,} nodes, {quality.balance:.2f} times the mean; "
    alt += f"the largest halo is {max(quality.halo):,}."
    return Chart("sizes", "Subgraphs", alt, views, layout)


def _bar(name: str, number: int, order: list[int], values: tuple[int, ...]) -> Trace:
    shown = [values[part] for part in order]
    return bars([str(part) for part in order], shown, color(number), "subgraph %{x}: %{y:,} " + name, name=name)


def phases(record: Record) -> Section | None:
    """Messages and updates of each phase, and for a small graph its picture; None of a schedule without rounds."""
    found = record.phases
    if not found.num_rounds:
        return None
    shown = found.rows[:MAX_PHASES]
    lead = (
        f"{found.num_rounds:,} {'equal ' if found.alike and found.num_rounds > 1 else ''}rounds send "
        f"{found.num_messages:,} messages and do {found.num_updates:,} node updates in a forward pass."
    )
    if len(found.rows) > MAX_PHASES:
        lead += f" The first {MAX_PHASES} of {len(found.rows):,} phases are shown."
    where = "One round" if found.alike else "All rounds"
    table = Table(where, ("phase", "steps", "blocks", "messages", "updates"), shown)
    return Section("schedule", "Schedule", lead, [_chart(shown, where), table, *_picture(record)])


def _chart(shown: Sequence[PhaseRow], where: str) -> Chart:
    names = [
        f"{number} · {row.kind}" + (f" × {row.repeat}" if row.repeat > 1 else "") for number, row in enumerate(shown, 1)
    ]
    counts = {"messages": [row.messages for row in shown], "updates": [row.updates for row in shown]}
    traces = [
        bars(names, values, color(number), "%{x}: %{y:,} " + name, name=name)
        for number, (name, values) in enumerate(counts.items())
    ]
    layout = {"barmode": "group", "xaxis": {"type": "category", "showgrid": False}, "yaxis": {"tickformat": ",d"}}
    alt = "; ".join(f"{name}: {m:,} messages, {u:,} updates" for name, m, u in zip(names[:8], *counts.values()))
    return Chart("phases", f"Phases: {where.lower()}", alt, {"counts": traces}, layout)


def _picture(record: Record) -> list[Drawing]:
    found = record.small
    if found is None or found.graph.num_nodes > MAX_NODES:
        return []
    picture = draw_schedule(found.schedule, partition=found.partition, seed=record.seed, max_panels=MAX_PANELS)
    return [Drawing("Who sends to whom", picture)]


MOST_NAMES = 50  # classes that are named
FEW = 10  # training labels; a class with fewer is listed
LARGE = 5_000_000  # nodes whose labels are not counted

Counts = Mapping[str, Mapping[Any, int]]


def write_model_card(run: RunFolder) -> None:
    """Write the run's `model_card.md` from what its folder holds, atomically.

    Raises:
        ValueError: when the run is not finished, or a file of it is damaged.
    """
    metrics, (_, described) = run.read_metrics(), run.read_model()
    environment = read_json(run.environment) if run.environment.is_file() else {}
    settings, counts = environment.get("settings") or {}, _count_labels(run, metrics)
    name = " ".join(PurePosixPath(str(settings.get("data.name", run.path.name))).name.split())
    sections = {
        f"# Model card: {value_text(name)}": _table_of(_model(metrics, described, environment)),
        "## Data": _table_of(_data(name, metrics, environment, counts)),
        "## Figures": _figures(metrics, run.read_baselines()),
        "## Intended use": [_use(metrics, described)],
        "## Limits": [f"- {each}" for each in _limits(metrics, described, counts)],
    }
    text = "\n\n".join("\n".join([title, "", *lines]) for title, lines in sections.items())
    write_text(run.model_card, text + "\n")


def _model(metrics: Mapping[str, Any], described: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Any]:
    members, settings = metrics.get("num_members"), environment.get("settings") or {}
    ended = f"{metrics.get('epochs')} ({metrics.get('stopped')}); the weights are those of {metrics.get('best_epoch')}"
    return {
        "model": described["model"].get("model", "gpnn") + ("" if members is None else f", a blend of {members}"),
        "recipe": settings.get("recipe"),
        "parameters": metrics.get("num_parameters"),
        "subgraphs": metrics.get("num_parts"),
        "rounds": metrics.get("num_rounds"),
        "epochs": ended,
        "seed": metrics.get("seed"),
        "trained with": f"gpnn {environment.get('gpnn')}, torch {(environment.get('packages') or {}).get('torch')}",
    }


def _data(name: str, metrics: Mapping[str, Any], environment: Mapping[str, Any], counts: Counts) -> dict[str, Any]:
    splits = counts.get("split", {})
    sizes = [f"{splits[split]:,} {word}" for split, word in reversed(SPLIT_NAMES.items()) if splits.get(split)]
    return {
        "graph": name,
        "nodes": metrics.get("num_nodes"),
        "edges": metrics.get("num_edges"),
        "labelled nodes": ", ".join(sizes) or None,
        "SHA-256 of edges, features, labels and masks": environment.get("data_sha256"),
    }


def _figures(metrics: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A row for each method, the model first; validation chose it, the test nodes were looked at once."""
    names = [name for name in shown_metrics(metrics) if f"test_{name}" in metrics or f"val_{name}" in metrics]
    keys = [f"{split}_{name}" for split in ("val", "test") for name in names]
    rows = [("this model", metrics), *baselines.items()]
    return _table(
        ["", *map(metric_words, keys)],
        [[name, *(metric_text(key, found.get(key)) for key in keys)] for name, found in rows],
    )


def _use(metrics: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    classes = described.get("classes")
    what = {
        "classification": "the class of a node",
        "multi_label": "the labels of a node",
        "regression": "a number for a node, with an interval",
    }[str(metrics.get("task", "classification"))]
    named = ""
    if classes:
        more = f" and {len(classes) - MOST_NAMES} more" if len(classes) > MOST_NAMES else ""
        named = f": {', '.join(value_text(each) for each in classes[:MOST_NAMES])}{more}"
    return (
        f"It predicts {what}{named}. It is meant for the graph that it was trained on, as it is or grown, whose "
        "columns and edges mean what they meant. Predictions are a help to people who can check them."
    )


def _limits(metrics: Mapping[str, Any], described: Mapping[str, Any], counts: Counts) -> Iterator[str]:
    yield "The figures are of nodes of the same graph. They say little of another, or of nodes chosen otherwise."
    if metrics.get("task") == "regression":
        yield "An interval holds a number as often as it says where nodes are like the validation nodes."
    else:
        yield "A node of none of the classes gets one all the same. A confidence holds on average, not for each node."
    if "num_nodes" in described["model"]:
        yield "It has an embedding of each node, and knows nothing of a new one but its neighbours."
    yield "A prediction follows a node's neighbours: what is wrong or missing among the edges moves it."
    rare = [f"{value_text(name)} ({count})" for name, count in counts.get("class", {}).items() if count < FEW]
    if rare:
        yield f"Classes with fewer than {FEW} training labels: {', '.join(rare[:MOST_NAMES])}."
    if metrics.get("stopped") == "interrupted":
        yield "The training was stopped before its end."
    yield "Nobody has examined whether it treats groups of people alike."


def _count_labels(run: RunFolder, metrics: Mapping[str, Any]) -> Counts:
    """Labelled nodes of each split, and training nodes of each class, of graphs that are not very large."""
    if (metrics.get("num_nodes") or LARGE) >= LARGE or not run.predictions.is_file():
        return {}
    from pyarrow import compute, parquet

    table = parquet.read_table(run.predictions)
    if not {"split", "label"} <= set(table.column_names):
        return {}
    table = table.filter(table["label"].is_valid())
    train = table.filter(compute.equal(table["split"], "train"))
    found = {"split": _counts(table["split"])}
    return found if metrics.get("task") != "classification" else {**found, "class": _counts(train["label"])}


def _counts(column: Any) -> dict[Any, int]:
    return {each["values"]: each["counts"] for each in column.value_counts().to_pylist()}


def _table_of(values: Mapping[str, Any]) -> list[str]:
    return _table(["", ""], [[key, value_text(value)] for key, value in values.items() if value is not None])


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    cells = [[each.replace("|", "\\|").replace("\n", " ") for each in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|" + "---|" * len(cells[0]), *lines[1:]]
