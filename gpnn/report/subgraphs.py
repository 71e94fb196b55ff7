"""The partition: how large the subgraphs are, what is cut and what each needs of the others."""

from __future__ import annotations

from gpnn.partition import Quality
from gpnn.report.content import Chart, Section, Table, Trace, color, percent
from gpnn.report.shared_record import AnyRecord

MAX_BARS = 200


def subgraphs(record: AnyRecord) -> Section | None:
    """Nodes, halo and training labels of each subgraph, and what the cut costs; None without a partition."""
    quality = record.quality
    if quality is None:
        return None
    lead = (
        f"{quality.num_parts:,} subgraphs; {percent(quality.edge_cut)} of the edges run between them. The halo of a "
        "subgraph is the distinct nodes outside that send into it: rows to fetch before a cut phase."
    )
    if quality.num_parts > MAX_BARS:
        lead += f" Bars show the {MAX_BARS} largest."
    rows = [(name, value) for name, value in quality.summary().items() if value is not None]
    return Section(
        "partition", "Partition", lead, [_bars(quality), Table("The cut and the balance", ("", "value"), rows)]
    )


def _bars(quality: Quality) -> Chart:
    order = sorted(range(quality.num_parts), key=lambda part: -quality.sizes[part])[:MAX_BARS]
    columns = {"nodes": quality.sizes, "halo": quality.halo}
    views = {
        "nodes and halo": [_bar(name, number, order, values) for number, (name, values) in enumerate(columns.items())]
    }
    views["edge ends"] = [_bar("edge ends", 2, order, quality.edge_ends)]
    if quality.train_labels is not None:
        views["training labels"] = [_bar("training labels", 4, order, quality.train_labels)]
    layout = {
        "barmode": "group",
        "xaxis": {"type": "category", "title": {"text": "subgraph, largest first"}, "showgrid": False},
        "yaxis": {"tickformat": ",d"},
    }
    largest = max(quality.sizes)
    alt = f"The largest subgraph has {largest:,} nodes, {quality.balance:.2f} times the mean; "
    alt += f"the largest halo is {max(quality.halo):,}."
    return Chart("sizes", "Subgraphs", alt, views, layout)


def _bar(name: str, number: int, order: list[int], values: tuple[int, ...]) -> Trace:
    return {
        "type": "bar",
        "name": name,
        "x": [str(part) for part in order],
        "y": [values[part] for part in order],
        "marker": {"color": color(number)},
        "hovertemplate": "subgraph %{x}: %{y:,} " + name + "<extra></extra>",
    }
