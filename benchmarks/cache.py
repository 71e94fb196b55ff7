"""Seconds a message against the size of the subgraph: T_S steps inside a block, streamed, beside synchronous steps.

    python benchmarks/cache.py --out benchmarks/results/cache.md

Subgraphs of random edges, none between them, so that all schedules send the same messages and update the same nodes.
Streamed, a block takes all its T_S steps before the next one: while its states fit in a core's cache they are read from
memory once, not T_S times. The synchronous steps run over the nodes as they came, in random order, and again over nodes
that were put in the order of their subgraphs first: the second is the partition's gain without its schedule. Forward
passes, one thread, the mean of neighbours (`cell="linear"`, α = 0), where memory and not arithmetic sets the pace; best
of the repeats. A picture is written beside the table.
"""

import argparse
import time
from pathlib import Path

from process import describe_machine

STEPS = (1, 2, 4, 8)


WAYS = ("streamed", "synchronous", "synchronous, ordered by subgraph")


def block_diagonal(num_nodes: int, size: int, degree: int):
    """A graph of blocks of `size` nodes, nodes in random order, the block of each, and its place in block order."""
    import torch

    from gpnn import Graph

    random = torch.Generator().manual_seed(0)
    src = torch.arange(num_nodes).repeat_interleave(degree)
    dst = (src // size * size + torch.randint(size, (len(src),), generator=random)).clamp(max=num_nodes - 1)
    name = torch.randperm(num_nodes, generator=random)
    place = torch.empty_like(name)
    place[name] = torch.arange(num_nodes)
    return Graph(name[dst], name[src], num_nodes), place // size, place


def seconds_a_message(options: argparse.Namespace, size: int, steps: int) -> list[float]:
    """CPU seconds a message of each of the ways."""
    import torch

    import gpnn
    from gpnn.engine import propagate
    from gpnn.nn.cell import build_cell

    graph, block, place = block_diagonal(options.nodes, size, options.degree)
    ordered = gpnn.Graph(place[graph.src], place[graph.dst], graph.num_nodes)
    plans = (
        gpnn.lower(graph, gpnn.schedule.partitioned(graph, block, rounds=1, intra=steps, cut=0)),
        gpnn.lower(graph, gpnn.schedule.synchronous(graph, rounds=steps)),
        gpnn.lower(ordered, gpnn.schedule.synchronous(ordered, rounds=steps)),
    )
    cell = build_cell("identity", "linear", "mean", {"alpha": 0.0}, options.width, 1, torch.Generator().manual_seed(0))
    state, found = torch.randn(options.nodes, options.width), []
    for plan, runner in zip(plans, ("streamed", "fused", "fused")):
        best = float("inf")
        with torch.no_grad():
            for _ in range(options.repeats + 1):
                began = time.process_time()
                propagate(cell, plan, state, runner=runner)
                best = min(best, time.process_time() - began)
        found.append(best / plan.num_messages)
    return found


def draw(rows: list[tuple[int, int, list[float]]], width: int, file: Path) -> None:
    """Nanoseconds a message against kilobytes of a subgraph's states, a line for each T_S."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2))
    for steps in sorted({row[1] for row in rows}):
        line = [row for row in rows if row[1] == steps]
        sizes = [row[0] * width * 4 / 1024 for row in line]
        axes.plot(sizes, [1e9 * row[2][0] for row in line], marker="o", label=f"streamed, T_S = {steps}")
        for way, style in ((1, ":"), (2, "--")):
            axes.plot(sizes, [1e9 * row[2][way] for row in line], style, color=axes.lines[-1].get_color())
    axes.set(xscale="log", xlabel="states of a subgraph, KiB", ylabel="nanoseconds a message", ylim=(0, None))
    axes.set_title("The same messages in synchronous steps: dotted; dashed, ordered by subgraph", fontsize=10)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1 << 19)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1 << 9, 1 << 11, 1 << 12, 1 << 13, 1 << 15, 1 << 17])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    heads = ("nodes per subgraph", "its states KiB", "T_S", *(f"{way}, ns" for way in WAYS), "gain", "over ordered")
    lines, rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"], []
    for size in options.sizes:
        for steps in STEPS:
            found = seconds_a_message(options, size, steps)
            rows.append((size, steps, found))
            metrics = [f"{1e9 * seconds:.1f}" for seconds in found] + [f"{other / found[0]:.2f}" for other in found[1:]]
            lines.append(f"| {size:,} | {size * options.width // 256:,} | {steps} | {' | '.join(metrics)} |")
            print(lines[-1], flush=True)
    if options.out:
        text = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], "", *lines, ""]
        text += [f"![Nanoseconds a message]({options.out.stem}.svg)", ""]
        text.append(f"{options.nodes:,} nodes, degree {options.degree}, d = {options.width}, float32, CPU seconds. ")
        text[-1] += f"Machine: {describe_machine()}."
        options.out.write_text("\n".join(text) + "\n", encoding="utf-8")
        draw(rows, options.width, options.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
