"""Epochs of `gpnn train` on the CPU that keep freed memory for later tensors, beside ones that return it.

    python benchmarks/kept_memory.py --out benchmarks/results/kept_memory.md

The planted graph of benchmarks/held_cut_train.py, d = 64, synchronous, fused, eight steps. Every training is a process
of its own. Seconds are the least of the epochs after the first, with their validation; "peak" is the most resident
memory of the process. A training keeps what it frees where its estimate is at most 40 % of the memory there is and,
where kernels take the cell's steps (all but gcnii here), 4 GB.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from held_cut_train import measure, write_graph
from process import describe_machine, run_alone

CELLS = ("residual", "gcnii", "mlp", "sage", "gru")
SHARES = {"returned": 0.0, "kept": 0.4}  # of the memory there is, up to which a training keeps what it frees


def train(graph: str, cell: str, share: float) -> None:
    """Print one training's figures."""
    import gpnn.pipeline

    gpnn.pipeline.ROOMY, gpnn.pipeline.MOST_KEPT = share, math.inf
    settings = [f"model.cell={cell}", "schedule.name=synchronous", "schedule.rounds=8", "engine=fused"]
    measure(graph, settings, epochs=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=400_000)
    parser.add_argument("--cells", nargs="+", default=list(CELLS))
    parser.add_argument("--out", type=Path, help="write the table to this file")
    parser.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train is not None:
        graph, cell, share = options.train
        train(graph, cell, float(share))
        return
    lines = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], ""]
    command = f"python benchmarks/kept_memory.py --nodes {options.nodes} --cells {' '.join(options.cells)}"
    lines += [f"Here: `{command}`. Machine: {describe_machine()}.", ""]
    lines += ["| cell | wall s, returned | kept | × | CPU s, returned | kept | × | peak GB, returned | kept | × |"]
    lines += ["|---" + "|--:" * 9 + "|"]
    with tempfile.TemporaryDirectory() as folder:
        graph = write_graph(Path(folder), options.nodes)
        for cell in options.cells:
            rows = [run_alone(__file__, ["--train", str(graph), cell, str(share)]) for share in SHARES.values()]
            print(cell, json.dumps(rows), flush=True)
            words = []
            for key, unit in (("wall", 1.0), ("cpu", 1.0), ("peak", 1e9)):
                before, after = (row[key] / unit for row in rows)
                words.append(f"{before:.2f} | {after:.2f} | {after / before:.2f}")
            lines.append(f"| {cell} | {' | '.join(words)} |")
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
