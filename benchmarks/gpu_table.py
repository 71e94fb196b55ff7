"""The tables and the picture of the GPU benchmark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def write(results: dict[str, Any], out: Path | None) -> None:
    """Print the tables, and write them to `out` with the picture beside it."""
    text = table(results)
    print(text)
    if out is not None:
        kept = out.read_text().split("<!-- tables -->")[0] if out.exists() else ""
        out.write_text(f"{kept}<!-- tables -->\n\n{text}\n")
        if "sizes" in results:
            draw(results, out.with_suffix(".svg"))


def table(results: dict[str, Any]) -> str:
    """All that was measured, as Markdown."""
    blocks = [f"Machine: {results['check']['machine']}."] if "check" in results else []
    titles = {
        "check": _check,
        "step": _step,
        "convolutions": _convolutions,
        "bare": _bare,
        "tune": _tune,
        "profile": _profile,
        "rounds": _rounds,
        "pyg_rounds": _pyg,
        "sizes": _sizes,
        "held_sizes": _held_sizes,
        "record": _record,
        "synchronous": _other_schedule("synchronous"),
        "held_cut": _other_schedule("the cut held, three steps in one round"),
        "cells": _cells,
        "held_capped": _held_capped,
        "rmat": _rmat,
        "capped": _capped,
        "wide_check": _differences,
        "full": _full,
        "eight_bit": _differences,
    }
    for part, make in titles.items():
        found = [results[name] for name in (part, f"{part} rmat") if name in results]
        if part == "rmat" and found:
            larger = results.get("rmat_large", {"rows": []})["rows"]
            largest = [results[f"{name} rmat"] for name in _LARGEST if f"{name} rmat" in results]
            blocks.append(make({"rows": found[0]["rows"] + larger + largest}))
        elif part in _LARGEST:
            blocks += [make(results[part])] if part in results else []
        elif part in _BESIDE and found:
            blocks.append(make(found))
        else:
            blocks += [make(result) for result in found]
    return "\n\n".join(blocks)


_LARGEST = ("record", "synchronous", "held_cut")  # which R-MAT's table has behind the smaller ones
_BESIDE = ("held_sizes", "cells", "capped", "full")  # whose table has a row for each graph


def _grid(columns: list[str], rows: list[list[Any]]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join(lines + [f"| {' | '.join(map(_text, row))} |" for row in rows])


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _check(result: dict[str, Any]) -> str:
    rows = [[name, f"{value:.1e}"] for name, value in result.items() if name != "machine"]
    return "### Against the float64 oracle on the CPU\n\n" + _grid(["what", "relative error"], rows)


def _step(result: dict[str, Any]) -> str:
    rows = [[r["graph"], r["method"], r["states"], r["ms"], r.get("GiB", "")] for r in result["rows"]]
    head = "### One step forward and backward, 1M nodes, 10M edges, d = 128\n\n"
    note = f"\n\nA copy moves {result['copy TB/s']} TB/s; the bytes of a bf16 step alone take {result['floor ms']} ms."
    return head + _grid(["graph", "method", "states", "ms", "GiB"], rows) + note


def _convolutions(result: dict[str, Any]) -> str:
    rows = [[r["graph"], r["method"], r["states"], r["ms"], r.get("GiB", "")] for r in result["rows"]]
    head = "### One step of a convolution forward and backward, d = 128\n\n"
    kernels = "\n\nThe residual step by kernel, 1M nodes, 10M edges:\n\n" + _kernel_grid(result["kernels"])
    return head + _grid(["graph", "method", "states", "ms", "GiB"], rows) + kernels


def _bare(result: dict[str, Any]) -> str:
    return f"### The bf16 step by kernel, {min(result['ms']):.2f} ms in all\n\n" + _kernel_grid(result["rows"])


def _kernel_grid(rows: list[dict[str, Any]]) -> str:
    return _grid(["kernel", "calls", "ms"], [[f"`{r['kernel']}`", f"{r['calls']:g}", f"{r['ms']:.2f}"] for r in rows])


def _tune(result: dict[str, Any]) -> str:
    """The variants of each part of a step, the fastest first."""
    rows = sorted(result["rows"], key=lambda r: (r["part"], min(r["ms"]) if isinstance(r["ms"], list) else 99))
    shown = [[r["part"], _settings(r), f"{r['error']:.1e}", min(r["ms"])] for r in rows if isinstance(r["ms"], list)]
    head = "### Parts of the bf16 step by variants of their kernels, 1M rows, d = 128\n\n"
    return head + _grid(["part", "variant", "error against float64", "ms"], shown)


def _settings(row: dict[str, Any]) -> str:
    names = [name for name in row if name not in ("part", "error", "ms", "TILES") and row[name] != ""]
    words = [f"{name.removeprefix('num_').lower()} {row[name]}" for name in names]
    return ", ".join(words) or "all weights stay on the chip"


def _profile(result: dict[str, Any]) -> str:
    titles = {
        "step": "The bf16 step by kernel",
        "synchronous": "A pass there and back at 16M nodes, three synchronous rounds, by kernel",
        "held_cut": "A pass there and back at 16M nodes, three steps with the cut held, by kernel",
    }
    return "\n\n".join(f"### {titles[part]}\n\n{_kernel_grid(rows)}" for part, rows in result.items())


def _rounds(result: dict[str, Any]) -> str:
    rows = [[r["schedule"], r["parts"], r["messages"], r["updates"], r["seconds"], r["GiB"]] for r in result["rows"]]
    head = "### Ten rounds, 10M nodes, 100M edges, d = 128, bf16, full gradients\n\n"
    return head + _grid(["schedule", "K", "messages", "node updates", "s per epoch", "GiB"], rows)


def _pyg(result: dict[str, Any]) -> str:
    rows = [[r["layers"], r["seconds"], r["GiB"]] for r in result["rows"]]
    return "PyG's GatedGraphConv there, TF32:\n\n" + _grid(["layers", "s a pass", "GiB"], rows)


def _sizes(result: dict[str, Any]) -> str:
    return "### The sizes between, three rounds, d = 128, bf16\n\n" + _grid(_COLUMNS, [_row(r) for r in result["rows"]])


def _held_sizes(results: list[dict[str, Any]]) -> str:
    head = "### Three steps with the cut held, one round, d = 128, bf16, by the number of subgraphs\n\n"
    rows = [[r.get("graph", "planted"), *_row(r)] for result in results for r in result["rows"]]
    return head + _grid(["graph", *_COLUMNS], rows)


def _cells(results: list[dict[str, Any]]) -> str:
    head = "### Three steps with the cut held, one round, d = 128, bf16, by the cell\n\n"
    rows = [[r["graph"], r["model_options"]["cell"], *_row(r)] for result in results for r in result["rows"]]
    return head + _grid(["graph", "cell", *_COLUMNS], rows)


_COLUMNS = ["nodes", "edges", "K", "partition and lower s", "engine", "s per epoch", "GiB", "estimated GiB"]


def _row(r: dict[str, Any]) -> list[Any]:
    names = ("nodes", "edges", "parts", "partition and lower", "engine", "seconds", "GiB", "estimated GiB")
    return [r.get(name, "") for name in names]


def _record(result: dict[str, Any]) -> str:
    names = ("largest_degree", "planted_cut", "messages", "updates", "generate", "features", "with validation")
    names += ("host GiB", "estimated host GiB", "all of it")
    facts = "; ".join(f"{name.replace('_', ' ')} {_text(result.get(name, ''))}" for name in names)
    epochs = [[e["epoch"], e["seconds"], e["loss"], e.get("val_accuracy", "")] for e in result["history"]]
    head = "### The record, three rounds, d = 128, bf16\n\n" + _grid(_COLUMNS, [_row(result)])
    return f"{head}\n\n{facts}.\n\n" + _grid(["epoch", "seconds", "loss", "validation accuracy"], epochs)


def _other_schedule(name: str) -> Callable[[dict[str, Any]], str]:
    def lines(result: dict[str, Any]) -> str:
        row = [name, result["parts"], result["messages"], result["updates"], result["seconds"], result["GiB"]]
        head = f"The same graph and kernels, {name}, engine {result['engine']}:\n\n"
        return head + _grid(["schedule", "K", "messages", "node updates", "s per epoch", "GiB"], [row])

    return lines


def _held_capped(result: dict[str, Any]) -> str:
    head = "### The record's graph with the cut held, the GPU held to so many GB; K is chosen\n\n"
    rows = [[r["graph"], _limit(r["device_memory"]), *_row(r), r["reserved GiB"]] for r in result["rows"]]
    return head + _grid(["graph", "GB", *_COLUMNS, "GiB that torch took"], rows)


def _limit(num_bytes: float | None) -> str:
    return "all" if num_bytes is None else f"{num_bytes / 1e9:g}"


def _rmat(result: dict[str, Any]) -> str:
    head = "### Skewed degrees beside planted communities, d = 128, bf16\n\n"
    names = ("graph", "schedule", "largest_degree", "planted_cut")
    rows = [[r[name] for name in names] + _row(r) for r in result["rows"]]
    return head + _grid(["graph", "schedule", "largest degree", "edges between classes", *_COLUMNS], rows)


def _capped(results: list[dict[str, Any]]) -> str:
    head = "### Three residual convolutions, 1,024 features, d = 256, bf16 states, the GPU held to 24 GiB\n\n"
    return head + _grid(["graph", *_COLUMNS], [[result["graph"], *_row(result)] for result in results])


def _full(results: list[dict[str, Any]]) -> str:
    head = "### IGB-full's size: three steps with the cut held, one round, d = 128, bf16\n\n"
    rows = [[result["graph"], *_row(result), result["host GiB"]] for result in results]
    return head + _grid(["graph", *_COLUMNS, "host GiB"], rows)


def _differences(result: dict[str, Any]) -> str:
    shown = {name: value if isinstance(value, str) else f"{value:,.2g}" for name, value in result.items()}
    return "; ".join(f"{name}: {value}" for name, value in shown.items())


def draw(results: dict[str, Any], out: Path) -> None:
    """Seconds and memory against nodes."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    rows = results["sizes"]["rows"] + ([results["record"]] if "record" in results else [])
    nodes = [row["nodes"] / 1e6 for row in rows]
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3.2))
    for axis, name, label in zip(axes, ("seconds", "GiB"), ("seconds per epoch", "GiB of device memory")):
        values = [row[name] for row in rows]
        axis.loglog(nodes, values, "o-")
        axis.set_xlabel("million nodes, 14.5 edges each")
        axis.set_ylabel(label)
        for x, y in zip(nodes, values):
            axis.annotate(f"{y:.3g}", (x, y), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8)
        axis.margins(0.12)
        axis.grid(True, which="major", alpha=0.3)
    figure.tight_layout()
    figure.savefig(out)
