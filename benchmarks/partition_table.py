"""The metrics of the partition benchmark as tables, and beside the targets that they are held to."""

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
COLUMNS = "| method | K | CPU s | s inside | wall s | cut | balance | balance of edges | halo rows | memory / CSR |"


def table(rows: list[Row]) -> str:
    """One table a graph, then the targets."""
    lines: list[str] = []
    for name in sorted({row["graph"] for row in rows}, key=_order):
        mine = [row for row in rows if row["graph"] == name]
        sizes = next((row for row in mine if "num_nodes" in row), None)
        size = f", {sizes['num_nodes']:,} nodes, {sizes['num_edges']:,} directed edges" if sizes else ""
        lines += ["", f"### {name}{size}", "", COLUMNS, "|---|" + "---:|" * (COLUMNS.count("|") - 2)]
        lines += [_line(row) for row in sorted(mine, key=lambda row: (row["k"], row["method"]))]
    return "\n".join([*lines, "", "## Targets", "", *_targets(rows)])


def _order(name: str) -> tuple[int, str]:
    kinds = ["mesh", "dataset", "grid", "planted", "rmat"]
    return kinds.index(name.split(":")[0]), name.zfill(40)


def _line(row: Row) -> str:
    if "failed" in row:
        return f"| {row['method']} | {row['k']} | {row['failed']} |" + " |" * 7
    inside = f"{row['inner_seconds']:.2f}" if "inner_seconds" in row else ""
    cells = [
        row["method"],
        str(row["k"]),
        f"{row['seconds']:.2f}",
        inside,
        f"{row['wall_seconds']:.2f}",
        f"{row['cut']:.4f}",
        f"{row['balance']:.3f}",
        f"{row['edge_balance']:.2f}",
        f"{row['halo']:,.0f}",
        f"{row['memory_ratio']:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _targets(rows: list[Row]) -> list[str]:
    found = {(row["graph"], row["method"], row["k"]): row for row in rows if "failed" not in row}
    lines = ["| what | bound | measured | |", "|---|---:|---:|---|"]
    for what, bound, value in _claims(found):
        lines.append(f"| {what} | {bound:g} | {value:.3g} | {'met' if value <= bound else 'not met'} |")
    return lines


def _claims(found: dict[tuple[str, str, int], Row]) -> list[tuple[str, float, float]]:
    """(what, upper bound, measured) for everything that was measured."""
    claims: list[tuple[str, float, float]] = []

    def ratio(what: str, bound: float, pair: tuple[tuple, tuple], figure: Callable[[Row], float]) -> None:
        if pair[0] in found and pair[1] in found:
            claims.append((what, bound, figure(found[pair[0]]) / figure(found[pair[1]])))

    for graph in sorted({key[0] for key in found}, key=_order):
        kind = graph.split(":")[0]
        for k, cut, time in ((10, 1.1, 1 / 3), (100, 1.15, 2 / 3)):
            pair = ((graph, "refined", k), (graph, "metis", k))
            if kind == "planted":
                ratio(f"{graph}, K = {k}: cut of refined / METIS", cut, pair, lambda row: row["cut"])
                ratio(f"{graph}, K = {k}: time of refined / METIS", round(time, 2), pair, lambda row: row["seconds"])
                flood = ((graph, "flood_fill", k), (graph, "metis", k))
                ratio(f"{graph}, K = {k}: time of flood fill / METIS", 0.1, flood, lambda row: row["seconds"])
            elif kind in ("mesh", "grid"):
                ratio(f"{graph}, K = {k}: cut of refined / METIS", 1.5, pair, lambda row: row["cut"])
            slow = ((graph, "flood_fill", k), (graph, "python", k))
            ratio(f"{graph}, K = {k}: time of flood fill / pure Python", 0.05, slow, lambda row: row["seconds"])
            theirs = ((graph, "spectral", k), (graph, "sklearn", k))
            ratio(f"{graph}, K = {k}: time of spectral / scikit-learn", 0.33, theirs, lambda row: row["seconds"])
    for (graph, method, k), row in sorted(found.items(), key=lambda item: (_order(item[0][0]), item[0][1:])):
        if method == "refined":
            claims.append((f"{graph}, K = {k}: largest part of refined / mean", 1.05, row["worst_balance"]))
        if method in ("refined", "flood_fill") and graph.split(":")[0] in ("planted", "rmat"):
            bound = 3 if method == "refined" else 1.5
            claims.append((f"{graph}, K = {k}: peak memory of {method} / CSR", bound, row["memory_ratio"]))
        if graph == "dataset:nell" and method == "spectral":
            claims.append((f"{graph}, K = {k}: seconds of spectral", 30, row["wall_seconds"]))
    return claims
