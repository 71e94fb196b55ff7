"""The cut held, streamed, beside synchronous propagation as deep, fused: epochs of `gpnn train` on the CPU.

    python benchmarks/held_cut_train.py --out benchmarks/results/held_cut_train.md

The planted graph of benchmarks/stored_train.py, converted, features of 32 columns; a gated graph network, or networks
of other `--cells`, d = 64, K subgraphs by `partition.method=clustered`, of the automatic number unless `--parts` has
others. Each training is a process of its own, and trainings take turns. Seconds are wall and CPU seconds of an epoch,
its validation pass included, the least of those after the first; ratios are taken turn by turn, and the median is
shown. "Peak" is the most resident memory that the process ever has, the prediction of all nodes at the end included.
The trainings run on the cores that this process may use: `taskset -c 0,1` for two. Streamed, blocks of the last round
take the last step for the rows that are wanted alone: in training 60 % of the nodes, in validation 20 %; the fused
runner takes it for all.
"""

import argparse
import json
import os
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from process import cpu_seconds, describe_machine, peak_bytes, run_alone

SETTINGS = ("model.hidden_channels=64", "model.dropout=0", "train.passes=1", "train.consistency=0")
SETTINGS += ("data.scale_features=none", "device=cpu")


def trainings(rounds: int, intra: int, parts: list[str], cell: str = "gru") -> dict[str, list[str]]:
    """The settings of each training, the one that others are measured by first."""
    held = ["schedule.name=held_cut", f"schedule.rounds={rounds}", f"schedule.intra={intra}"]
    held += ["partition.method=clustered", "engine=streamed"]
    found = {"synchronous, fused": ["schedule.name=synchronous", f"schedule.rounds={rounds * intra}", "engine=fused"]}
    found |= {f"held cut, streamed, K {k}": [*held, f"partition.k={k}"] for k in parts}
    return {name: [f"model.cell={cell}", *settings] for name, settings in found.items()}


class Clock:
    """Seconds of each epoch."""

    def start(self, history: list) -> None:
        self.at, self.cpu = cpu_seconds(), []

    def epoch(self, record: dict) -> None:
        self.cpu.append(cpu_seconds() - self.at)
        self.at = cpu_seconds()


def measure(graph: str, settings: list[str], epochs: int) -> None:
    """Print one training's figures."""
    import torch

    from gpnn.build import build
    from gpnn.config.parse import read_settings, sound_config

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    words = [f"data.name={graph}", *SETTINGS, f"train.epochs={epochs}", *settings]
    clock, built = Clock(), build(sound_config(read_settings(None, words)))
    with tempfile.TemporaryDirectory() as folder:
        result = built.fit(Path(folder) / "checkpoint", [clock])
    wall = [record["seconds"] for record in result.history]
    figures = {"wall": min(wall[1:]), "cpu": min(clock.cpu[1:]), "peak": peak_bytes()}
    print(json.dumps(figures | {"loss": result.history[-1]["loss"], "parts": built.config.partition.k}))


def write_graph(folder: Path, num_nodes: int) -> Path:
    """The planted graph, converted; ten times as many edges as nodes."""
    from stored_train import write

    from gpnn.cli import app

    arrays, graph = folder / "arrays", folder / "graph"
    write(arrays, "planted", num_nodes, 5 * num_nodes)
    words = ["data", "convert", arrays / "edges", graph, "--features", arrays / "x.npy", "--labels", arrays / "y.npy"]
    app([*map(str, words), "--undirected"], standalone_mode=False)
    return graph


def table(options: argparse.Namespace, graph: Path, rounds: int, intra: int, cell: str) -> list[str]:
    """A line for each training of one depth and cell."""
    found: dict[str, list[dict]] = {}
    for _ in range(options.turns):
        for name, settings in trainings(rounds, intra, options.parts, cell).items():
            words = [f"--graph={graph}", f"--epochs={options.epochs}", f"--settings={json.dumps(settings)}"]
            found.setdefault(name, []).append(run_alone(__file__, words))
            print(name, found[name][-1], flush=True)
    first = next(iter(found.values()))
    lines = ["| training | wall s per epoch | × | CPU s | × | peak GB | × |", "|---|---|---|---|---|---|---|"]
    for name, rows in found.items():
        failed = next((row["failed"] for row in rows + first if "failed" in row), None)
        if failed is not None:
            lines.append(f"| {name} | {failed} | | | | | |")
            continue
        words = []
        for key, unit in (("wall", 1.0), ("cpu", 1.0), ("peak", 1e9)):
            ratio = median(ours[key] / theirs[key] for ours, theirs in zip(rows, first))
            words.append(f"{median(row[key] for row in rows) / unit:.2f} | {ratio:.2f}")
        chosen = name.replace("K auto", f"K {rows[0]['parts']} (auto)")
        lines.append(f"| {chosen} | {' | '.join(words)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cases", nargs="+", default=["1x4", "2x8"], help="rounds x steps per round")
    parser.add_argument("--cells", nargs="+", default=["gru"], help="such as linear, residual")
    parser.add_argument("--parts", nargs="+", default=["auto"], help="numbers of subgraphs, auto among them")
    parser.add_argument("--out", type=Path, help="write the tables to this file, after each case")
    parser.add_argument("--graph", help=argparse.SUPPRESS)
    parser.add_argument("--settings", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.settings is not None:
        measure(options.graph, options.settings, options.epochs)
        return
    command = f"python benchmarks/held_cut_train.py --nodes {options.nodes} --epochs {options.epochs}"
    command += f" --turns {options.turns} --cases {' '.join(options.cases)} --parts {' '.join(options.parts)}"
    command += f" --cells {' '.join(options.cells)}"
    lines = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], "", f"Here: `{command}`."]
    lines.append(f"{options.nodes:,} nodes. Machine: {describe_machine()}.")
    with tempfile.TemporaryDirectory() as folder:
        graph = write_graph(Path(folder), options.nodes)
        for case, cell in product(options.cases, options.cells):
            rounds, intra = (int(number) for number in case.split("x"))
            lines += ["", f"## Depth {rounds * intra} in {rounds} round{'s' if rounds > 1 else ''}, {cell}", ""]
            lines += table(options, graph, rounds, intra, cell)
            if options.out:
                options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
