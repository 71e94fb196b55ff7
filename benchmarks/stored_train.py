"""Train from files: arrays, `gpnn data convert`, `gpnn train`, `gpnn predict`, each a process; its seconds and memory.

    python benchmarks/stored_train.py --nodes 20e6 --edges 100e6 --memory 17.1 --epochs 2 --folder scratch/stored \
        --out benchmarks/results/stored_train.md

The graph is planted: 32 classes, four fifths of the edges inside blocks of 1,000 nodes of one class, features of 32
columns around the class's mean; with `--graph rmat` its degrees are skewed. Edges are made symmetric, so that it has
twice as many. The training is a gated graph network, d = 32, two rounds, exact gradients, all nodes labelled and split
60/20/20. Resident memory counts mapped pages that the system has not taken back; anonymous memory is what it cannot.

    python benchmarks/stored_train.py --device cuda --nodes 50e6 --edges 364e6 --width 128 --memory 100 --epochs 3

makes the graphs of `gpu_graph.py` on a GPU and trains there, d = 128, three steps, states in bfloat16, features in
float16, one node in eighty labelled. Messages are weighed by the command's own rule, symmetric_split with self-loops.
`--source` is another folder for the arrays, such as one in memory, and `--drop` deletes them after the conversion:
a disk then need not hold features twice. `--written` writes the files that the conversion would, from rows that a GPU
sorted, where trainings are to be measured and not the conversion; with `--eight` their features have 8 bits. Several
schedules (`--schedule held_cut,synchronous`) train one after the other from the same folder.
"""

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.convert import draw
from benchmarks.process import describe_machine

if TYPE_CHECKING:
    import torch

CLASSES, WIDTH, BLOCK, BATCH = 32, 32, 1000, 1 << 22
SETTINGS = (
    "model.cell=gru",
    "model.dropout=0.0",
    "train.passes=1",
    "train.consistency=0.0",
    "data.scale_features=none",
    "partition.method=clustered",
)
ON = {  # a kind of device
    "cpu": ("schedule.rounds=2", "device=cpu"),
    "cuda": (*("model.concat=none", "train.precision=bf16_states", "device=cuda"),),
}
STEPS = {  # three, on a GPU, by schedule
    "partitioned": ("schedule.name=partitioned", "schedule.rounds=3"),
    "held_cut": ("schedule.name=held_cut", "schedule.rounds=1", "schedule.intra=3"),
    "synchronous": ("schedule.name=held_cut", "schedule.rounds=3", "schedule.intra=1"),  # subgraph after subgraph
}


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


def write_on_gpu(folder: Path, graph: str, num_nodes: int, num_edges: int, width: int) -> None:
    """The same of a graph of :data:`gpu_graph.PAIRS`, in float16; one node in eighty has a label, others −1."""
    sys.path.insert(0, str(Path(__file__).parent))
    import torch
    from gpu_graph import PAIRS
    from gpu_task import feature_centres, feature_pieces

    from gpnn.data.npy_file import NpyWriter

    (folder / "edges").mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pairs = PAIRS[graph](num_nodes, 2 * num_edges, device)
    np.save(folder / "edges" / "source.npy", pairs.first.cpu().numpy())
    np.save(folder / "edges" / "target.npy", pairs.second.cpu().numpy())
    known = torch.rand(num_nodes, device=device, generator=torch.Generator(device).manual_seed(1)) < 1 / 80
    np.save(folder / "y.npy", torch.where(known, pairs.label, -1).cpu().numpy())
    random, centre = feature_centres(width, device)
    with NpyWriter(folder / "x.npy", np.float16, (width,)) as x:
        for _, values in feature_pieces(pairs.label, centre, random, torch.float16):
            x.append(values.numpy())
    (folder / "done").touch()


def write_converted(folder: Path, graph: str, num_nodes: int, num_edges: int, width: int, eight: bool) -> None:
    """What `gpnn data convert` makes of these arrays, from rows that were sorted where they were drawn."""
    sys.path.insert(0, str(Path(__file__).parent))
    import torch
    from gpu_graph import PAIRS, symmetric_csr
    from gpu_task import SCALE, feature_centres, feature_pieces
    from torch_geometric.data import Data

    from gpnn.data.labels import count_classes
    from gpnn.data.npy_file import NpyWriter, write_array
    from gpnn.data.splits import MASKS, draw_split
    from gpnn.data.stored import describe_array, write_index
    from gpnn.data.tables.vocabulary import Vocabulary

    folder.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pairs = PAIRS[graph](num_nodes, 2 * num_edges, device)
    known = torch.rand(num_nodes, device=device, generator=torch.Generator(device).manual_seed(1)) < 1 / 80
    data = Data(y=torch.where(known, pairs.label, -1).cpu(), num_nodes=num_nodes)
    data.num_classes = count_classes(data.y)
    note = draw_split(data, 0)
    for name in ("y", *MASKS):
        write_array(folder / f"{name}.npy", data[name].numpy())
    num_edges, digest = write_rows(folder, *symmetric_csr(pairs.first, pairs.second, num_nodes))
    label = pairs.label
    del pairs, known
    torch.cuda.empty_cache()  # others may need a GPU's memory while features are written
    random, centre = feature_centres(width, device)
    with NpyWriter(folder / "x.npy", np.int8 if eight else np.float16, (width,)) as x:
        for _, values in feature_pieces(label, centre, random, torch.int8 if eight else torch.float16):
            x.append(values.numpy())
    if eight:
        write_array(folder / "x_scale.npy", np.full(width, SCALE, np.float32))
    facts = {"num_nodes": num_nodes, "num_edges": num_edges, "symmetric": True, "num_features": width}
    facts |= {"edge_digest": digest, "num_edge_types": 1, "edge_type_names": None}
    facts |= {"feature_names": None, "task": None, "num_classes": data.num_classes, "class_names": None}
    facts |= {"vocabulary": Vocabulary((), None, None).to_mapping(), "notes": [note]}
    facts["arrays"] = {path.stem: describe_array(path) for path in sorted(folder.glob("*.npy"))}
    write_index(folder, facts)


def write_rows(folder: Path, ptr: "torch.Tensor", col: "torch.Tensor") -> tuple[int, list[int]]:
    """The rows of a graph whose self-loops stand twice, each of them once; how many edges, and their digest."""
    import torch

    from gpnn.csr_kernel import sum_hashes
    from gpnn.data.npy_file import NpyWriter

    none, count, digest, listed = np.empty(0, np.int64), 0, 0, 0
    with (
        NpyWriter(folder / "in_ptr.npy", np.int64) as pointers,
        NpyWriter(folder / "in_col.npy", np.int32) as columns,
    ):
        pointers.append(np.zeros(1, np.int64))
        for first in range(0, len(ptr) - 1, BATCH):
            part = ptr[first : first + BATCH + 1]
            rows = torch.arange(first, first + len(part) - 1, device=ptr.device).repeat_interleave(part.diff())
            entries = col[int(part[0]) : int(part[-1])]
            loops = entries == rows
            kept = ~loops | (loops.cumsum(0) % 2 == 1)
            degree = torch.bincount(rows[kept] - first, minlength=len(part) - 1)
            rows, entries = rows[kept].cpu().numpy(), entries[kept].cpu().numpy()
            found = [int(each) for each in sum_hashes(0, entries, rows, none, none)]
            digest, listed = digest + found[0], listed + found[1] + 2 * count * found[0]
            pointers.append(count + degree.cumsum(0).cpu().numpy())
            columns.append(entries)
            count += len(entries)
    word = (1 << 64) - 1
    return count, [digest & word, listed & word]


def measured(
    name: str, words: list[str], history: Path | None = None, program: tuple[str, ...] = ("-m", "gpnn")
) -> dict:
    """Run a command of gpnn; its seconds, peak resident bytes, and peak of those that are not mapped files.

    With `history`, the file that a training adds epochs to, also the seconds from its start to the first one's end.
    """
    start = time.perf_counter()
    command = [sys.executable, "-u", *program, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peaks: dict[str, float] = {"VmHWM": 0, "RssAnon": 0}
    watch = threading.Thread(target=_watch, args=(process, peaks, history, start))
    watch.start()
    assert process.stdout is not None
    output = []
    for line in process.stdout:
        output.append(line.rstrip())
        print(f"{time.perf_counter() - start:8.1f} s  {line}", end="", flush=True)
    watch.join()
    if process.wait():
        raise SystemExit(f"{name} failed with {process.returncode}")
    return {"what": name, "seconds": time.perf_counter() - start, **peaks, "output": "\n".join(output)}


def _watch(process: subprocess.Popen, peaks: dict[str, float], history: Path | None, start: float) -> None:
    status, on_gpu = Path(f"/proc/{process.pid}/status"), shutil.which("nvidia-smi") is not None
    while process.poll() is None:
        if on_gpu:
            query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
            used = int(subprocess.run(query, capture_output=True, text=True).stdout.split()[0]) << 20
            peaks["device"] = max(peaks.get("device", 0), used)
        if history is not None and "first epoch" not in peaks and history.exists() and history.stat().st_size:
            peaks["first epoch"] = time.perf_counter() - start
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
    parser.add_argument("--device", choices=tuple(ON), default="cpu")
    parser.add_argument("--width", type=int, default=WIDTH, help="of features and states")
    parser.add_argument("--threads", type=int, help="of the conversion (default: one per core)")
    parser.add_argument("--only", choices=("convert", "train"), help="stop after the conversion, or do no prediction")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further setting")
    parser.add_argument("--folder", type=Path, default=Path("scratch/stored"))
    parser.add_argument("--source", type=Path, help="folder of the arrays before the conversion (default: the same)")
    parser.add_argument("--written", action="store_true", help="write the graph's files without a conversion")
    parser.add_argument("--eight", action="store_true", help="features that are written so have 8 bits")
    parser.add_argument("--drop", action="store_true", help="delete the arrays after the conversion")
    parser.add_argument("--profile", type=Path, help="a folder for kernels and their times; ends before the last epoch")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    name = f"{given.graph}-{int(given.nodes)}-{int(given.edges)}"
    folder, source = given.folder / name, (given.source or given.folder) / name
    rows, graph = [], folder / "graph"
    if given.written and not (graph / "graph.json").exists():
        start = time.perf_counter()
        write_converted(graph, given.graph, int(given.nodes), int(given.edges), given.width, given.eight)
        print(f"the files are written in {time.perf_counter() - start:.0f} s", flush=True)
    if not (graph / "graph.json").exists():
        if not (source / "done").exists():
            start, sizes = time.perf_counter(), (given.graph, int(given.nodes), int(given.edges))
            write(source, *sizes) if given.device == "cpu" else write_on_gpu(source, *sizes, given.width)
            print(f"the arrays are written in {time.perf_counter() - start:.0f} s", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        files = ["--features", source / "x.npy", "--labels", source / "y.npy"]
        words = ["data", "convert", source / "edges", graph, *files, "--undirected"]
        if given.device == "cuda":
            words += ["--dtype", "float16", "--duplicates", "keep", "--memory", min(40, given.memory)]
        else:
            words += ["--memory", min(4, given.memory)]
        words += [] if given.threads is None else ["--threads", given.threads]
        rows.append(measured("convert", list(map(str, words))))
        print(rows[-1], flush=True)
        if given.drop:
            shutil.rmtree(source / "edges")
            (source / "x.npy").unlink()
    for schedule in [] if given.only == "convert" else given.schedule.split(","):
        run = folder / f"run-{schedule}-{int(time.time())}"
        rows.append(train(graph, run, schedule, given))
        print(rows[-1], flush=True)
    if given.only is None:
        rows.append(measured("predict", ["predict", str(run), "--out", str(folder / "predictions.parquet")]))
        print(rows[-1], flush=True)
    page = report(rows, folder.name, given)
    print(page)
    if given.out:
        given.out.write_text(page)


def train(graph: Path, run: Path, schedule: str, given: argparse.Namespace) -> dict:
    """Train by the command; what :func:`measured` gives, and the seconds of an epoch without validation."""
    steps = STEPS[schedule] if given.device == "cuda" else (f"schedule.name={schedule}",)
    words = ["train", graph, *SETTINGS, *steps, *ON[given.device], f"train.epochs={given.epochs}"]
    words += [f"model.hidden_channels={given.width}", f"memory={given.memory}GB", f"disk={run.parent}", *given.set]
    words += [f"train.check_every={given.epochs}"] if given.device == "cuda" else []
    words = [*map(str, words), "--out", str(run), "--no-report"]
    program = ("-m", "gpnn")
    if given.profile is not None:
        program = ("benchmarks/profile_train.py", f"{given.profile}/{schedule}.json", str(given.epochs - 1))
    row = measured(f"train, {schedule}", words, run / "history.jsonl", program)
    epochs = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    bare = sorted(each["seconds"] for each in epochs[1:] if "val_loss" not in each) or [epochs[-1]["seconds"]]
    return row | {"epoch": bare[len(bare) // 2], "epochs": [round(each["seconds"], 3) for each in epochs]}


def report(rows: list[dict], graph: str, given: argparse.Namespace) -> str:
    """The results as a page; the estimate stands in what the training printed."""
    command = f"python benchmarks/stored_train.py --graph {given.graph} --nodes {given.nodes:g} --edges {given.edges:g}"
    command += f" --memory {given.memory:g} --epochs {given.epochs} --schedule {given.schedule} --width {given.width}"
    command += f" --device {given.device}" + "".join(f" --set {each}" for each in given.set)
    lines = ["# Training from files on the disk", "", describe_machine(), "", f"`{command}`", ""]
    columns = ("graph", "command", "seconds", "to the first epoch's end", "seconds per epoch")
    columns += ("peak GiB, anonymous", "peak GiB, with mapped pages", "of the GPU")
    lines += [f"| {' | '.join(columns)} |", "|---|---" + "|--:" * (len(columns) - 2) + "|"]
    for row in rows:
        times = [f"{row['seconds']:.0f}", f"{row['first epoch']:.0f}" if "first epoch" in row else ""]
        times += [f"{row['epoch']:.2f}" if "epoch" in row else ""]
        sizes = [f"{row[name] / 2**30:.2f}" if name in row else "" for name in ("RssAnon", "VmHWM", "device")]
        lines.append(f"| {' | '.join([graph, row['what'], *times, *sizes])} |")
    printed = [row["output"] for row in rows if row["what"] != "predict"]
    return "\n".join([*lines, "", "```", *printed, "```", ""])


if __name__ == "__main__":
    main()
