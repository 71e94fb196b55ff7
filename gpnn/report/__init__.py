"""A run as one report to look at: self-contained HTML, charts and all."""

from gpnn.report.compare import write_comparison
from gpnn.report.cost import Cost, measure_cost
from gpnn.report.gather import gather_record
from gpnn.report.html import SECTIONS, advice, can_write, check_extra, write_explanation, write_report
from gpnn.report.nodes import MAX_EXPLAINED, choose_examples
from gpnn.report.record import Chart, Drawing, Listing, Record, Section, Table
from gpnn.report.setup import write_model_card

__all__ = [
    "MAX_EXPLAINED",
    "SECTIONS",
    "Chart",
    "Cost",
    "Drawing",
    "Listing",
    "Record",
    "Section",
    "Table",
    "advice",
    "can_write",
    "check_extra",
    "choose_examples",
    "gather_record",
    "measure_cost",
    "write_comparison",
    "write_explanation",
    "write_model_card",
    "write_report",
]
