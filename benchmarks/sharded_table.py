"""The tables of benchmarks/sharded.py: what was measured, and what the cost model says."""

from __future__ import annotations

from statistics import median

import numpy as np

from benchmarks.distributed_cost import Cost, Machine, Workload, estimate

SHOWN = ("T_S = 2", "T_S = 4", "synchronous, depth 9", "held, 3 × 4 steps", "synchronous, depth 12")  # seconds of these


def describe(results: dict, *, channels: int, rounds: int) -> str:
    """All tables as Markdown."""
    machine = calibrate(results, channels, rounds)
    lines = [
        "# Training in several processes",
        "",
        f"`python benchmarks/sharded.py --epochs {results['epochs']} --turns {results['turns']} --out "
        f"benchmarks/results/sharded` on {results['machine']}.",
        "",
        f"A GRU of {channels} channels, T = {rounds}, T_C = 1, one pass per epoch, one thread per process.",
        "",
        *_graphs(results),
        "",
        *_traffic(results),
        "",
        *_speed(results),
        "",
        *_held(results),
        "",
        *_model(results, machine, channels, rounds),
        "",
    ]
    return "\n".join(lines)


def calibrate(results: dict, channels: int, rounds: int) -> Machine:
    """The machine's constants: speeds and memory from one process on both graphs, the link from two processes."""
    rows, seconds, sizes, memory = [], [], [], []
    for name, measured in results["processes"]["1"].items():
        for schedule, metrics in measured.items() if name != "link" else ():
            if schedule.startswith("T_S"):
                work = workload(results["graphs"][name], schedule, channels, rounds)
                messages, updates = counts(work)
                rows.append([messages * channels, updates * channels, work.num_nodes])
                seconds.append(metrics["cpu"])
                sizes.append([work.num_edges, work.num_nodes, updates * channels * 4])
                memory.append(metrics["memory"])
    from scipy.optimize import nnls

    message, update, rest = nnls(np.array(rows), np.array(seconds))[0]
    edge, node, kept = nnls(np.array(sizes), np.array(memory, float))[0]
    link = results["processes"]["2"]["link"]
    return Machine(
        messages=1 / max(message, 1e-15),
        updates=1 / max(update, 1e-15),
        bandwidth=link["bandwidth"],
        latency=link["latency"],
        edge_bytes=edge,
        rest=rest,
        kept=kept,
        memory=node,  # here: bytes that a node takes besides its states
    )


def workload(graph: dict, schedule: str, channels: int, rounds: int) -> Workload:
    """What one schedule of the benchmark is to the model."""
    intra = int(schedule.split()[-1])
    sizes = (graph["nodes"], graph["edges"], channels, rounds, intra, 1, graph["cut edges"], graph["cut nodes"])
    return Workload(*sizes)


def counts(work: Workload) -> tuple[float, float]:
    """Messages and updates of a pass."""
    messages = work.rounds * (work.intra * (1 - work.cut_edges) + work.cut * work.cut_edges) * work.num_edges
    return messages, work.rounds * (work.intra + work.cut * work.cut_nodes) * work.num_nodes


def _graphs(results: dict) -> list[str]:
    lines = ["| graph | nodes | edges | edges cut | nodes at the cut |", "|---|---|---|---|---|"]
    for name, graph in results["graphs"].items():
        cut = f"{graph['cut edges']:.1%} | {graph['cut nodes']:.1%}"
        lines.append(f"| {name} | {graph['nodes']:,} | {graph['edges']:,} | {cut} |")
    return lines


def _traffic(results: dict) -> list[str]:
    lines = [
        "## Bytes that the busiest process sent in an epoch",
        "",
        "| graph | processes | schedule | halo rows | sent, MB | synchronous of that depth, MB | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in ("2", "4"):
        for name in (name for name in results["graphs"] if name in results["processes"][size]):
            for schedule, metrics in results["processes"][size][name].items():
                sent, other = metrics["sent"] / 1e6, metrics["synchronous"] / 1e6
                words = f"{metrics['halo']:,} | {sent:.1f} | {other:.1f} | {sent / other:.2f}"
                lines.append(f"| {name} | {size} | {schedule} | {words} |")
    return lines


def _speed(results: dict) -> list[str]:
    lines = [
        "## Speed and memory",
        "",
        f"The machine's load when this began was {results['load']:.0f} on its cores: where that is more than they are,",
        "seconds tell how busy others were, and CPU seconds how much work there is.",
        "",
        "| graph | schedule | processes | s per epoch | CPU s per process | faster than one | memory per process, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in (name for name in results["graphs"] if name in results["processes"]["2"]):
        for schedule in SHOWN:
            alone = results["processes"]["1"][name][schedule]["wall"]
            for size in ("1", "2", "4"):
                metrics = results["processes"][size][name][schedule]
                words = f"{metrics['wall']:.2f} | {metrics['cpu']:.2f} | {alone / metrics['wall']:.2f}×"
                lines.append(f"| {name} | {schedule} | {size} | {words} | {metrics['memory'] / 1e6:.0f} |")
    return lines


def _held(results: dict) -> list[str]:
    """The cut held beside synchronous propagation as deep."""
    lines = [
        "## The cut held beside synchronous propagation as deep",
        "",
        "How much faster is taken turn by turn, and the median is shown.",
        "",
        "| graph | processes | s per epoch: held | synchronous | faster | CPU s: held | synchronous | faster "
        "| waited, s: held | synchronous | bytes |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in (name for name in results["graphs"] if name in results["processes"]["2"]):
        for size in ("1", "2", "4"):
            held, other = (results["processes"][size][name][schedule] for schedule in SHOWN[-2:])
            words = []
            for key in ("wall", "cpu"):
                ratio = median(slow / fast for slow, fast in zip(other["turns"][key], held["turns"][key]))
                words.append(f"{held[key]:.2f} | {other[key]:.2f} | {ratio:.2f}×")
            sent = f"{held['sent'] / other['sent']:.2f}" if other["sent"] else "none"
            waited = f"{held['waited']:.3f} | {other['waited']:.3f}"
            lines.append(f"| {name} | {size} | {' | '.join(words)} | {waited} | {sent} |")
    return lines


def _model(results: dict, machine: Machine, channels: int, rounds: int) -> list[str]:
    speeds = f"{machine.messages:.2e} message entries and {machine.updates:.2e} update entries per second"
    link = f"{machine.bandwidth / 1e9:.2f} GB/s and {machine.latency * 1e6:.0f} µs between two processes"
    memory = f"{machine.edge_bytes:.0f} bytes per edge, {machine.memory:.0f} per node, "
    memory += f"{machine.kept:.1f} states kept per update"
    lines = [
        "## The cost model",
        "",
        f"Constants from one process: {speeds}, {machine.rest * 1e6:.2f} µs per node besides; {memory}. Link: {link}.",
        "",
        "| graph | schedule | processes | CPU s: model | measured | MB sent: model | measured | MB: model | measured |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, graph in results["graphs"].items():
        for schedule in ("T_S = 1", "T_S = 2", "T_S = 4"):
            for size in (1, 2, 4) if name in results["processes"]["2"] else (1,):
                metrics = results["processes"][str(size)][name][schedule]
                cost = predict(machine, workload(graph, schedule, channels, rounds), size, metrics)
                words = [
                    f"{cost.compute:.2f} | {metrics['cpu']:.2f}",
                    f"{cost.sent / 1e6:.1f} | {metrics['sent'] / 1e6:.1f}",
                    f"{cost.memory / 1e6:.0f} | {metrics['memory'] / 1e6:.0f}",
                ]
                lines.append(f"| {name} | {schedule} | {size} | {' | '.join(words)} |")
    return lines


def predict(machine: Machine, work: Workload, size: int, metrics: dict) -> Cost:
    """The model's word on one measurement, given the halo and the balance of its shards."""
    from dataclasses import replace

    balance = (metrics["edges"] / work.num_edges + metrics["nodes"] / work.num_nodes) * size / 2
    work = replace(work, feature_bytes=machine.memory - 2 * work.channels * work.state_bytes)
    return estimate(work, machine, size, metrics["halo"], balance)
