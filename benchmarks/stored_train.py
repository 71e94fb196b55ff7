"""Train from files: arrays, `gpnn data convert`, `gpnn train`, each a process; its seconds and peak memory.

    python benchmarks/stored_train.py --nodes 20e6 --edges 100e6 --memory 16 --epochs 2 --folder scratch/stored

The graph is planted: 32 classes, four fifths of the edges inside blocks of 1,000 nodes of one class, features of 32
columns around the class's mean; with `--graph rmat` its degrees are skewed. Edges are made symmetric, so that it has
twice as many. The training is a gated graph network, d = 32, two rounds, exact gradients. Resident memory counts mapped
pages that the system has not taken back; `RssAnon` is what it cannot.
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
    "schedule.rounds=2",
    "data.scale_features=none",
    "partition.method=clustered",
)


def write(folder: Path, graph: str, num_nodes: int, num_edges: int) -> None:
    """`source.npy`, `target.npy`, `x.npy` and `y.npy`, a batch at a time."""
    from gpnn.data.stored.npy_file import NpyWriter

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
    process = subprocess.Popen([sys.executable, "-m", "gpnn", *words], stdout=subprocess.PIPE, text=True)
    peaks = {"VmHWM": 0, "RssAnon": 0}
    watch = threading.Thread(target=_watch, args=(process, peaks))
    watch.start()
    output = process.communicate()[0]
    watch.join()
    if process.returncode:
        raise SystemExit(f"{name} failed with {process.returncode}")
    return {"what": name, "seconds": time.perf_counter() - start, **peaks, "output": output.strip()[-300:]}


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
    words += [f"memory={given.memory}", "--out", run, "--no-report", "--json"]
    rows.append(measured(f"train, {given.schedule}", list(map(str, words))))
    epochs = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    rows[-1]["epoch seconds"] = epochs[-1]["seconds"]
    print(rows[-1], flush=True)
    if given.out:
        given.out.write_text(
            json.dumps({"machine": describe_machine(), "graph": folder.name, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
