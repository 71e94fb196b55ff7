"""Cells, inputs, outputs, and the models made of them."""

from gpnn.nn.cell import Cell, CellBank
from gpnn.nn.dropout import Draw
from gpnn.nn.ggsnn import GGSNN, mark_questions
from gpnn.nn.gpnn import GPNN
from gpnn.nn.graph_head import GRAPH_HEADS, GatedSum, NodeSelection
from gpnn.nn.message import MESSAGES
from gpnn.nn.readout import READOUTS
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
    "Draw",
    "GatedSum",
    "NodeSelection",
    "Scheduled",
    "mark_questions",
]
