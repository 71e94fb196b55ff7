"""The model card of a finished run: what the model was trained on, how good it is, its use and its limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from gpnn.report.counts import SPLIT_NAMES
from gpnn.run.folder import RunFolder
from gpnn.storage.atomic import write_text
from gpnn.storage.read import read_json
from gpnn.text import metric_text, value_text
from gpnn.train.task import shown_metrics

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
        f"# Model card: {value_text(name)}": _rows(_model(metrics, described, environment)),
        "## Data": _rows(_data(name, metrics, environment, counts)),
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
    heads = [f"{SPLIT_NAMES[key.partition('_')[0]]} {key.partition('_')[2].replace('_', ' ')}" for key in keys]
    rows = [("this model", metrics), *baselines.items()]
    return _table(["", *heads], [[name, *(metric_text(key, found.get(key)) for key in keys)] for name, found in rows])


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


def _rows(values: Mapping[str, Any]) -> list[str]:
    return _table(["", ""], [[key, value_text(value)] for key, value in values.items() if value is not None])


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    cells = [[each.replace("|", "\\|").replace("\n", " ") for each in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|" + "---|" * len(cells[0]), *lines[1:]]
