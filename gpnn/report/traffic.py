"""Traffic: what several processes hold and send each other."""

from __future__ import annotations

from gpnn.report.content import Chart, Section, Table, color, size
from gpnn.report.curves import curve, history_column
from gpnn.report.shared_record import AnyRecord, SharedRecord

LINES = {
    "sent_bytes": "sent by the busiest process",
    "synchronous_bytes": "if propagation were synchronous",
    "reduced_bytes": "parameter gradients, reduced",
}
MAX_SHARES = 64


def traffic(record: AnyRecord) -> Section | None:
    """Bytes an epoch and what each process holds; None of a run in one process that holds the graph."""
    if not isinstance(record, SharedRecord):
        return None
    number = len(record.shares)
    lead = f"{number} process{'es' if number > 1 else ''} trained together. "
    lead += "Phases inside subgraphs send nothing; a phase over the cut sends the halo's rows, once a repeat."
    columns = ("process", *record.shares[0])
    rows = [(str(rank), *share.values()) for rank, share in enumerate(record.shares[:MAX_SHARES])]
    if number > MAX_SHARES:
        lead += f" The first {MAX_SHARES} processes are shown."
    charts = [_bytes(record)] if history_column(record.history, "sent_bytes")[0] else []
    return Section("traffic", "Processes", lead, [*charts, Table("What each holds", columns, rows)])


def _bytes(record: SharedRecord) -> Chart:
    traces, most = [], {}
    for number, (name, words) in enumerate(LINES.items()):
        epochs, values = history_column(record.history, name)
        most[name] = max(values, default=0)
        traces.append(curve(words, epochs, values, color(number), hover="epoch %{x}: %{y:.4s}B"))
    layout = {
        "xaxis": {"title": {"text": "epoch"}},
        "yaxis": {"rangemode": "tozero", "tickformat": ".3s", "ticksuffix": "B"},
    }
    alt = "; ".join(f"{words}: at most {size(most[name])} an epoch" for name, words in LINES.items())
    return Chart("bytes", "Bytes an epoch", alt, {"bytes": traces}, layout)
