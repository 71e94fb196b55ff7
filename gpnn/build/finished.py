"""A finished run: the notes that follow from its history, and what is stored beside its weights."""

from __future__ import annotations

from typing import Any

from gpnn.build.objects import Built
from gpnn.train.divergence import training_notes
from gpnn.train.known_nodes import RowDigests
from gpnn.train.notes import Note
from gpnn.train.run_folder import RunFolder


def history_notes(run: RunFolder, built: Built) -> list[Note]:
    """The notes that follow from a run's history."""
    data = built.data
    return training_notes(run.read_history(), data.num_classes, multi_label=data.y.dim() == 2)


def describe_model(built: Built, digests: RowDigests | None) -> dict[str, Any]:
    """What :func:`gpnn.build.predict.read_trained` reads beside the weights of a run's model, as JSON holds it.

    Args:
        built: the objects of the run.
        digests: of its graph where nodes have no ids.
    """
    data, words = built.data, built.data.get("vocabulary")
    return {
        "model": built.model_arguments,
        "classes": data.get("class_names"),
        "multi_label": data.y.dim() == 2,
        "vocabulary": None if words is None else words.to_mapping(),
        "rows": None if digests is None else digests._asdict(),
    }
