"""Does streamed memory follow the largest subgraph? Peak memory of one forward and backward pass at four values of K.

    python benchmarks/streaming.py --out benchmarks/results/streaming.md

Each configuration runs in a fresh process. Its working memory is the peak resident memory of the pass above what was
resident before it (graph, plan, input state), read from /proc, with freed memory returned to the system at once.
"""

import argparse
import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

COMMUNITIES = 1024
PARTS = (4, 16, 64, 256)


def planted(num_nodes: int, degree: int, mixing: float):
    """A graph of equal communities, nodes numbered by community, and the community of each node."""
    import torch

    from gpnn import Graph

    random = torch.Generator().manual_seed(0)
    size, count = num_nodes // COMMUNITIES, num_nodes * degree // 2
    src = torch.randint(num_nodes, (count,), generator=random)
    inside = src // size * size + torch.randint(size, (count,), generator=random)
    anywhere = torch.randint(num_nodes, (count,), generator=random)
    dst = torch.where(torch.rand(count, generator=random) < mixing, anywhere, inside)
    return Graph(torch.cat([src, dst]), torch.cat([dst, src]), num_nodes), torch.arange(num_nodes) // size


def measure(options: argparse.Namespace) -> None:
    """Print one configuration's metrics: block and cut rows, bytes of a state, working bytes."""
    import torch

    from gpnn.engine import propagate
    from gpnn.nn.cell import build_cell

    cell = build_cell("identity", options.cell, "mean", {}, options.width, 1, torch.Generator().manual_seed(0))
    small, state = prepare(2 * COMMUNITIES, options)
    propagate(cell, small, state, runner=options.runner).sum().backward()  # loads the kernels
    plan, state = prepare(options.nodes, options)
    with torch.no_grad():
        propagate(cell, plan, state, runner=options.runner)  # builds what the plan keeps
    before = resident()
    propagate(cell, plan, state, runner=options.runner).sum().backward()
    inside, cut = plan.rounds[0]
    rows = max(block.num_rows for block in (inside.blocks if options.runner == "streamed" else [inside.whole]))
    print(rows, cut.num_rows, state.numel() * state.element_size(), peak() - before)


def prepare(num_nodes: int, options: argparse.Namespace):
    """A plan over a planted graph, and its initial state."""
    import torch

    import gpnn

    graph, community = planted(num_nodes, options.degree, options.mixing)
    labels = community * options.k // COMMUNITIES
    schedule = gpnn.schedule.partitioned(graph, labels, rounds=options.rounds, intra=options.intra)
    random = torch.Generator().manual_seed(0)
    return gpnn.lower(graph, schedule), torch.randn(num_nodes, options.width, generator=random, requires_grad=True)


def resident() -> int:
    """Resident bytes now; the peak counts from here."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def run(runner: str, k: int, options: argparse.Namespace) -> tuple[int, int, int, int]:
    """The metrics of one configuration, measured in a process of its own."""
    names = ("nodes", "degree", "mixing", "width", "rounds", "intra", "cell")
    arguments = [f"--{name}={getattr(options, name)}" for name in names]
    command = [sys.executable, __file__, f"--runner={runner}", f"--k={k}", *arguments]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    rows, cut, state, working = map(int, done.stdout.split())
    return rows, cut, state, working


def table(options: argparse.Namespace) -> str:
    """A row for each configuration."""
    columns = ("cell", "runner", "K", "largest block, rows", "cut rows", "peak MB", "boundary states MB")
    columns += ("peak less boundaries MB",)
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for runner, k in [("fused", PARTS[0]), *(("streamed", k) for k in PARTS)]:
        rows, cut, state, working = run(runner, k, options)
        kept = state * (options.rounds - 1) if runner == "streamed" else 0  # the caller holds the first one
        cells = f"{rows:,} | {cut:,} | {working / 1e6:,.0f} | {kept / 1e6:,.0f} | {(working - kept) / 1e6:,.0f}"
        lines.append(f"| {options.cell} | {runner} | {k} | {cells} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200 * COMMUNITIES)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--mixing", type=float, default=0.1)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--intra", type=int, default=2)
    parser.add_argument("--cell", default="gru")
    parser.add_argument("--runner", help="measure this one configuration")
    parser.add_argument("--k", type=int, default=PARTS[0])
    parser.add_argument("--out", type=Path, help="write the table, with its settings, to this file")
    options = parser.parse_args()
    if options.runner:
        measure(options)
        return
    rows = table(options)
    if options.out:
        settings = " ".join(f"{name}={getattr(options, name)}" for name in ("nodes", "degree", "mixing", "width"))
        settings += f" rounds={options.rounds} intra={options.intra} cut=1, float32"
        machine = f"{os.cpu_count()}-core {platform.machine()} CPU, Python {platform.python_version()}"
        options.out.write_text(f"{rows}\n\n{settings}; {machine}.\n")


if __name__ == "__main__":
    main()
