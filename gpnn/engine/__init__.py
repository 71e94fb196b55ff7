"""One engine for every schedule: lower it once to a Plan, then propagate any cell over it."""

from gpnn.engine.block import Block
from gpnn.engine.lower_schedule import lower, lower_csr
from gpnn.engine.lowered_phase import BuiltPhase, LoweredPhase, LoweredRows
from gpnn.engine.normalize import NORMALIZATIONS
from gpnn.engine.plan import Plan
from gpnn.engine.propagate import RUNNERS, propagate, recomputes
from gpnn.engine.saved_states import HostRows, Source
from gpnn.engine.step import OWN, CellLike, Step, aggregate_messages
from gpnn.engine.streamed import Streamed

__all__ = [
    "NORMALIZATIONS",
    "OWN",
    "RUNNERS",
    "Block",
    "BuiltPhase",
    "CellLike",
    "HostRows",
    "LoweredPhase",
    "LoweredRows",
    "Plan",
    "Source",
    "Step",
    "Streamed",
    "aggregate_messages",
    "lower",
    "lower_csr",
    "propagate",
    "recomputes",
]
