"""Train from files: arrays, `gpnn data convert`, `gpnn train`, `gpnn predict`, each a process; its seconds and memory.

    python benchmarks/stored_train.py --nodes 20e6 --edges 100e6 --memory 17.1 --epochs 2 --folder scratch/stored \
        --out benchmarks/results/stored_train.md

The graph is planted: 32 classes, four fifths of the edges inside blocks of 1,000 nodes of one class, features of 32
columns around the class's mean; with `--graph rmat` its degrees are skewed. Edges are made symmetric, so that it has
twice as many. The training is a gated graph network, d = 32, two rounds, exact gradients, all nodes labelled and split
60/20/20. Resident memory counts mapped pages that the system has not taken back; anonymous memory is what it cannot.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.convert import draw
from benchmarks.process import describe_machine

CLASSES, WIDTH, BLOCK, BATCH = 32, 32, 1000, 1 << 22
SETTINGS = (
    "model.cell=gru",
    f"model.hidden_channels={WIDTH}",
    "model.dropout=0.0",
    "train.passes=1",
    "train.consistency=0.0",
    "schedule.rounds=2",
    "data.scale_features=none",
    "partition.method=clustered",
)


def write(folder: Path, graph: str, num_nodes: int, num_edges: int) -> None:
    """`source.npy`, `target.npy`, `x.npy` and `y.npy`, a batch at a time."""
    from gpnn.data.npy_file import NpyWriter

    (folder / "edges").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    with (
        NpyWriter(folder / "edges" / "source.npy", np.int32) as src,
        NpyWriter(folder / "edges" / "target.npy", np.int32) as dst,
    ):
        for start in range(0, num_edges, BATCH):
            count = min(BATCH, num_edges - start)
            one, other = draw("rmat" if graph == "rmat" else "uniform", num_nodes, count, rng)
            if graph == "planted":
                near = rng.random(count) < 0.8
                other[near] = np.minimum(one[near] // BLOCK * BLOCK + rng.integers(0, BLOCK, near.sum()), num_nodes - 1)
            src.append(one)
            dst.append(other)
    label = rng.permutation(-(-num_nodes // BLOCK))
    means = rng.normal(size=(CLASSES, WIDTH)).astype(np.float32)
    with NpyWriter(folder / "x.npy", np.float32, (WIDTH,)) as x, NpyWriter(folder / "y.npy", np.int64) as y:
        for start in range(0, num_nodes, BATCH):
            nodes = np.arange(start, min(start + BATCH, num_nodes))
            classes = label[nodes // BLOCK] % CLASSES
            x.append(means[classes] + 4 * rng.standard_normal((len(nodes), WIDTH), np.float32))
            y.append(classes)
    (folder / "done").touch()


def measured(name: str, words: list[str]) -> dict:
    """Run a command of gpnn; its seconds, peak resident bytes, and peak of those that are not mapped files."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpnn", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peaks = {"VmHWM": 0, "RssAnon": 0}
    watch = threading.Thread(target=_watch, args=(process, peaks))
    watch.start()
    output = process.communicate()[0]
    watch.join()
    if process.returncode:
        raise SystemExit(f"{name} failed with {process.returncode}")
    return {"what": name, "seconds": time.perf_counter() - start, **peaks, "output": output.strip()}


def _watch(process: subprocess.Popen, peaks: dict[str, int]) -> None:
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            return
        for line in lines:
            key, _, value = line.partition(":")
            if key in peaks:
                peaks[key] = max(peaks[key], int(value.split()[0]) << 10)
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=2e5)
    parser.add_argument("--edges", type=float, default=1e6)
    parser.add_argument("--memory", type=float, default=16.0, help="GB that a process may take")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--schedule", default="partitioned")
    parser.add_argument("--graph", choices=("planted", "rmat"), default="planted")
    parser.add_argument("--folder", type=Path, default=Path("scratch/stored"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    folder = given.folder / f"{given.graph}-{int(given.nodes)}-{int(given.edges)}"
    if not (folder / "done").exists():
        write(folder, given.graph, int(given.nodes), int(given.edges))
    rows, graph = [], folder / "graph"
    if not (graph / "graph.json").exists():
        files = ["--features", folder / "x.npy", "--labels", folder / "y.npy"]
        words = ["data", "convert", folder / "edges", graph, *files, "--undirected", "--memory", min(4, given.memory)]
        rows.append(measured("convert", list(map(str, words))))
        print(rows[-1], flush=True)
    run = folder / f"run-{int(time.time())}"
    words = ["train", graph, *SETTINGS, f"schedule.name={given.schedule}", f"train.epochs={given.epochs}"]
    words += [f"memory={given.memory}", f"disk={folder}", "--out", run, "--no-report"]
    rows.append(measured(f"train, {given.schedule}", list(map(str, words))))
    epochs = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    rows[-1]["epoch"] = epochs[-1]["seconds"]
    print(rows[-1], flush=True)
    rows.append(measured("predict", ["predict", str(run), "--out", str(folder / "predictions.parquet")]))
    print(rows[-1], flush=True)
    page = report(rows, folder.name, given)
    print(page)
    if given.out:
        given.out.write_text(page)


def report(rows: list[dict], graph: str, given: argparse.Namespace) -> str:
    """The results as a page; the estimate stands in what the training printed."""
    command = f"python benchmarks/stored_train.py --graph {given.graph} --nodes {given.nodes:g} --edges {given.edges:g}"
    command += f" --memory {given.memory:g} --epochs {given.epochs} --schedule {given.schedule}"
    lines = ["# Training from files on the disk", "", describe_machine(), "", f"`{command}`", ""]
    lines += ["| graph | command | seconds | seconds per epoch | peak GiB, anonymous | peak GiB, with mapped pages |"]
    lines += ["|---|---|--:|--:|--:|--:|"]
    for row in rows:
        epoch = f"{row['epoch']:.1f}" if "epoch" in row else ""
        sizes = f"{row['RssAnon'] / 2**30:.2f} | {row['VmHWM'] / 2**30:.2f}"
        lines.append(f"| {graph} | {row['what']} | {row['seconds']:.0f} | {epoch} | {sizes} |")
    trained = next(row for row in rows if row["what"].startswith("train"))
    return "\n".join([*lines, "", "```", trained["output"], "```", ""])


if __name__ == "__main__":
    main()
