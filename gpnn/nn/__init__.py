"""Cells, inputs, outputs, and the models made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from gpnn.check import check_choice
from gpnn.nn.cell import MESSAGES, Cell, CellBank
from gpnn.nn.column_model import ColumnModel
from gpnn.nn.encoder import READOUTS
from gpnn.nn.ggsnn import GGSNN, GRAPH_HEADS, GatedSum, NodeSelection, mark_questions
from gpnn.nn.gpnn import GPNN
from gpnn.nn.layers import MaskKey
from gpnn.nn.scheduled import Scheduled
from gpnn.nn.update import UPDATES

__all__ = [
    "GGSNN",
    "GPNN",
    "GRAPH_HEADS",
    "MESSAGES",
    "MODELS",
    "READOUTS",
    "UPDATES",
    "Cell",
    "CellBank",
    "GatedSum",
    "MaskKey",
    "NodeModel",
    "NodeSelection",
    "Scheduled",
    "build_model",
    "mark_questions",
]

NodeModel: TypeAlias = GPNN | ColumnModel

# What gives every node its scores, by name, made from arguments that JSON holds.
MODELS: dict[str, type[NodeModel]] = {"gpnn": GPNN, "columns": ColumnModel}


def build_model(arguments: Mapping[str, Any], **own: Any) -> NodeModel:
    """The model of the name `model` among the arguments, "gpnn" where there is none, at its initial weights.

    Args:
        arguments: of the model's class.
        own: further ones, that files do not hold.

    Raises:
        ValueError: when there is no model of this name.

    >>> type(build_model({"model": "columns", "in_channels": 4, "out_channels": 2})).__name__
    'ColumnModel'
    """
    given = dict(arguments)
    name = given.pop("model", "gpnn")
    check_choice("model", name, MODELS)
    return MODELS[name](**given, **own)
