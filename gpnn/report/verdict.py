"""The verdict: how good a run is, beside plain methods and beside its own training nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpnn.report.content import Section, Table
from gpnn.report.record import Record
from gpnn.text import SHARES, metric_text
from gpnn.train.baselines import ABOUT
from gpnn.train.metrics import merit
from gpnn.train.task import shown_metrics

SPLITS = {"test": "test", "val": "validation", "train": "training"}
ALSO = ("macro_f1", "roc_auc")


def verdict(record: Record) -> Section:
    """The metrics in words, and a row for the run and for each plain method."""
    split = "test" if any(name.startswith("test_") for name in record.metrics) else "val"
    named = (*shown_metrics(record.metrics), *ALSO)
    names = [name for name in dict.fromkeys(named) if record.metrics.get(f"{split}_{name}") is not None]
    if not names:
        return Section("verdict", "Verdict", "No labelled node was held out, so that nothing can be said of it.", [])
    found = {name: metric_text(name, record.metrics[f"{split}_{name}"]) for name in names}
    lead = f"{SPLITS[split].capitalize()}: " + ", ".join(f"{_words(name)} {value}" for name, value in found.items())
    parts = [lead + ".", _beside(record, split, names[0]), _gap(record, split, names[0]), _stopped(record)]
    return Section("verdict", "Verdict", " ".join(filter(None, parts)), [_table(record, split, names)])


def _beside(record: Record, split: str, name: str) -> str:
    """The run beside the best plain method."""
    key = f"{split}_{name}"
    found = {each: values[key] for each, values in record.baselines.items() if values.get(key) is not None}
    if not found:
        return ""
    best, ours = max(found, key=lambda each: merit(name, found[each])), record.metrics[key]
    theirs = f"{ABOUT.get(best, best)} ({metric_text(name, found[best])})"
    if merit(name, ours) <= merit(name, found[best]):
        return f"That is not better than the best plain method, {theirs}."
    by = f"{100 * (ours - found[best]):.1f} points better" if name in SHARES else "better"
    return f"That is {by} than the best plain method, {theirs}."


def _gap(record: Record, split: str, name: str) -> str:
    """The training nodes beside those held out."""
    train, ours = record.metrics.get(f"train_{name}"), record.metrics[f"{split}_{name}"]
    if train is None:
        return ""
    said = f"On the training nodes its {_words(name)} is {metric_text(name, train)}"
    gap = 100 * (train - ours) if name in SHARES else 0.0
    return f"{said}, {gap:.1f} points more." if gap >= 0.05 else f"{said}."


def _stopped(record: Record) -> str:
    if record.metrics.get("stopped") != "interrupted":
        return ""
    return f"The training was stopped after epoch {record.metrics.get('epochs', 0):,} and can go on."


def _table(record: Record, split: str, names: list[str]) -> Table:
    """The held-out split by every metric, the other splits by the first."""
    keys = [f"{split}_{name}" for name in names]
    keys += [f"{each}_{names[0]}" for each in ("val", "train") if each != split]
    keys = [key for key in keys if record.metrics.get(key) is not None]
    columns = ("", *(_words(key) for key in keys), "seconds")
    rows = [_row("this run", record.metrics, keys)]
    rows += [_row(ABOUT.get(name, name), found, keys) for name, found in record.baselines.items()]
    return Table("Beside plain methods", columns, rows, wide=True)


def _row(name: str, metrics: Mapping[str, Any], keys: list[str]) -> tuple[str, ...]:
    seconds = metrics.get("seconds")
    shown = [metric_text(key, metrics.get(key)) for key in keys]
    return (name, *shown, "–" if seconds is None else f"{seconds:.1f}")


def _words(key: str) -> str:
    """A metric in words.

    >>> _words("train_macro_f1"), _words("test_roc_auc")
    ('training macro F1', 'test ROC AUC')
    """
    for split, word in SPLITS.items():
        if key.startswith(f"{split}_"):
            return f"{word} {_words(key.removeprefix(f'{split}_'))}"
    return {"macro_f1": "macro F1", "roc_auc": "ROC AUC"}.get(key, key.replace("_", " "))
