"""One engine for every schedule: lower it once to a Plan, then propagate any cell over it."""

from gpnn.engine.block import Block
from gpnn.engine.lowered_phase import LoweredPhase
from gpnn.engine.normalize import NORMALIZATIONS
from gpnn.engine.plan import Plan, lower
from gpnn.engine.propagate import RUNNERS, propagate
from gpnn.engine.step import OWN, CellLike, Step, hear
from gpnn.engine.streamed import Streamed

__all__ = [
    "NORMALIZATIONS",
    "OWN",
    "RUNNERS",
    "Block",
    "CellLike",
    "LoweredPhase",
    "Plan",
    "Step",
    "Streamed",
    "hear",
    "lower",
    "propagate",
]
