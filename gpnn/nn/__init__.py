"""Cells, inputs, outputs, and the models made of them."""

from gpnn.nn.cell import MESSAGES, Cell, CellBank
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
    "READOUTS",
    "UPDATES",
    "Cell",
    "CellBank",
    "GatedSum",
    "MaskKey",
    "NodeSelection",
    "Scheduled",
    "mark_questions",
]
