"""Cells, inputs, outputs, and the models made of them."""

from gpnn.nn.cell import Cell, CellBank
from gpnn.nn.dropout import Draw
from gpnn.nn.gpnn import GPNN
from gpnn.nn.message import MESSAGES
from gpnn.nn.readout import READOUTS
from gpnn.nn.scheduled import Scheduled
from gpnn.nn.update import UPDATES

__all__ = ["GPNN", "MESSAGES", "READOUTS", "UPDATES", "Cell", "CellBank", "Draw", "Scheduled"]
