"""What the cost model says of graphs that fit no machine here: papers100M's sizes and 100 times them, on many GPUs.

    python benchmarks/cost_model.py --out benchmarks/results/cost_model.md

Nothing is run: these are predictions. The GPU is one H200 as measured on its own (10 synchronous steps of a GRU of 128
channels in bf16 over 10M nodes and 100M edges, forward and backward, in 0.77 s; a mean over 1.56 billion edges forward
in 78 ms), links are what their makers state: 450 GB/s between the eight GPUs of a host, 50 GB/s per GPU between hosts.
The halo is an assumption, since it follows from a partition that nobody has made here: for each own row half a row, two
rows, or as many as a random partition would have.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.distributed_cost import Machine, Workload, estimate

GPU = Machine(
    messages=1.28e12,
    updates=1.9e10,
    bandwidth=450e9,
    latency=30e-6,
    edge_bytes=20,
    kept=4,
    memory=141e9,
)
HOST, BETWEEN_HOSTS = 8, 50e9
PAPERS = Workload(
    num_nodes=111.1e6,
    num_edges=3.23e9,  # both directions
    channels=128,
    rounds=5,
    intra=1,
    cut=1,
    cut_edges=0.2,
    cut_nodes=0.5,
    feature_bytes=256,  # 128 features in bf16
    state_bytes=2,
    parameters=2e5,
)
GRAPHS = {
    "papers100M": PAPERS,
    "100 × papers100M": replace(PAPERS, num_nodes=PAPERS.num_nodes * 100, num_edges=PAPERS.num_edges * 100),
}
PROCESSES = (8, 32, 128, 512, 1024)


def halo_rows(work: Workload, size: int, how: float | None) -> float:
    """Halo rows of a process: a share of its own rows, or what edges from anywhere reach."""
    own = work.num_nodes / size
    if how is not None:
        return how * own
    elsewhere = work.num_nodes - own
    return elsewhere * (1 - (1 - 1 / work.num_nodes) ** (work.num_edges / size))  # distinct senders


def link(size: int) -> float:
    """Bytes a second of a process whose rows go to all others alike."""
    outside = max(0, size - HOST) / (size - 1)
    return 1 / ((1 - outside) / GPU.bandwidth + outside / BETWEEN_HOSTS)


def table(work: Workload) -> list[str]:
    lines = [
        "| GPUs | halo per own row | GB sent per GPU | synchronous | s, no overlap | s, all overlaps | GB per GPU "
        "| fits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size in PROCESSES:
        for how in (0.5, 2.0, None):
            halo = halo_rows(work, size, how)
            cost = estimate(work, replace(GPU, bandwidth=link(size)), size, halo, balance=1.05)
            fits = "yes" if cost.memory <= GPU.memory else "no"
            words = [f"{cost.sent / 1e9:.1f}", f"{cost.synchronous / 1e9:.1f}", f"{cost.seconds:.3f}"]
            words += [f"{cost.overlapped:.3f}", f"{cost.memory / 1e9:.0f}", fits]
            share = f"{halo * size / work.num_nodes:.1f}" + (" (random)" if how is None else "")
            lines.append(f"| {size:,} | {share} | {' | '.join(words)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    assert __doc__ is not None
    text = ["# Predictions of the cost model", "", *__doc__.split("\n\n")[2].strip().splitlines(), ""]
    text += [f"A GRU of {PAPERS.channels} channels in bf16, T = {PAPERS.rounds}, T_S = T_C = 1, one pass, fused."]
    for name, work in GRAPHS.items():
        text += ["", f"## {name}: {work.num_nodes:,.0f} nodes, {work.num_edges:,.0f} edges", "", *table(work)]
    print("\n".join(text))
    if options.out:
        options.out.write_text("\n".join([*text, "", "`python benchmarks/cost_model.py --out FILE`", ""]))


if __name__ == "__main__":
    main()
