"""A run as one page to look at: self-contained HTML, charts and all."""

from gpnn.report.compare import write_comparison
from gpnn.report.content import Chart, Drawing, Listing, Section, Table
from gpnn.report.cost import Cost, measure_cost
from gpnn.report.embed import advice, can_write, check_extra
from gpnn.report.page import SECTIONS, write_report
from gpnn.report.record import Record
from gpnn.report.shared_record import SharedRecord

__all__ = [
    "SECTIONS",
    "Chart",
    "Cost",
    "Drawing",
    "Listing",
    "Record",
    "Section",
    "SharedRecord",
    "Table",
    "advice",
    "can_write",
    "check_extra",
    "measure_cost",
    "write_comparison",
    "write_report",
]
