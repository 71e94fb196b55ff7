"""A finished run: the notes that follow from its history, what is stored beside its weights, and its sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gpnn.build.objects import Built
from gpnn.data.files import sha256_of
from gpnn.distributed import group_of
from gpnn.distributed.parameters import own_names
from gpnn.run.folder import RunFolder
from gpnn.run.known_nodes import RowDigests
from gpnn.train.divergence import training_notes
from gpnn.train.notes import Note


def history_notes(run: RunFolder, built: Built) -> list[Note]:
    """The notes that follow from a run's history."""
    data = built.data
    return training_notes(run.read_history(), data.num_classes, multi_label=data.y.dim() == 2)


def describe_model(built: Built, digests: RowDigests | None, predictions: Path) -> dict[str, Any]:
    """What :func:`gpnn.build.predict.read_trained` reads beside the weights of a run's model, as JSON holds it.

    Args:
        built: the objects of the run.
        digests: of its graph where nodes have no ids.
        predictions: the run's file of predictions, written already: new nodes join the subgraphs in it.
    """
    data, words = built.data, built.data.get("vocabulary")
    return {
        "model": built.model_arguments,
        "classes": data.get("class_names"),
        "multi_label": data.y.dim() == 2,
        "vocabulary": None if words is None else words.to_mapping(),
        "rows": None if digests is None else digests._asdict(),
        "predictions_sha256": sha256_of(predictions),
    }


def describe_sizes(built: Built) -> dict[str, Any]:
    """How large a run was, over all processes; messages and updates are those of an epoch, over all its passes."""
    passes, totals = built.config.train.passes, built.totals
    counts = {name: each.numel() for name, each in built.model.named_parameters()}
    own = sum(counts.pop(name) for name in own_names(built.model))
    return {
        "num_messages": built.plan.num_messages * passes,
        "num_updates": built.plan.num_updates * passes,
        "multi_label": built.data.y.dim() == 2,
        "num_nodes": totals.num_nodes,
        "num_edges": totals.num_edges,
        "num_parts": totals.num_parts,
        "num_rounds": built.plan.num_rounds,
        "num_parameters": int(group_of(built.plan).all_reduce(torch.tensor(own))) + sum(counts.values()),
        "seed": built.config.seed,
    }
