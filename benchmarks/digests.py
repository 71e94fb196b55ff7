"""What do digests cost where large files are read back? Each reading with its digests, and the same without.

    python benchmarks/digests.py --out benchmarks/results/digests.md

A shard of a graph of two million nodes, and a checkpoint as large. A measurement is a fresh process that reads the file
once, all of it, imports not counted: `read_shard`, then every feature; `read_tensors`, which copies every tensor out of
the file. "From disk" the file is dropped from the page cache before, "cached" it has just been read.
With and without digests take turns; the table shows medians, and their ratio less one.
"""

import argparse
import hashlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

KINDS = ("shard", "checkpoint")


def write_shard(folder: Path, num_nodes: int) -> Path:
    """Half of a graph with ten edges and 128 features per node, cut in two."""
    from gpnn import Partition
    from gpnn.distributed import NodeOrder, write_shards
    from gpnn.graph import Graph

    random = torch.Generator().manual_seed(0)
    src = torch.randint(num_nodes, (10 * num_nodes,), generator=random)
    near = (src + torch.randint(-1000, 1000, src.shape, generator=random)).clamp(0, num_nodes - 1)
    far = torch.randint(num_nodes, src.shape, generator=random)
    graph = Graph(src, torch.where(torch.rand(src.shape, generator=random) < 0.8, near, far), num_nodes)
    part = Partition(torch.arange(num_nodes) * 64 // num_nodes, 64)
    columns = {"x": torch.rand(num_nodes, 128, generator=random), "y": torch.arange(num_nodes) % 10}
    write_shards(folder / "shards", graph, NodeOrder.of(graph, part, 2), columns, {"num_classes": 10})
    return folder / "shards" / "shard-00000-of-00002.safetensors"


def write_checkpoint(folder: Path, num_nodes: int) -> Path:
    """Embeddings, the best of them and two moments of an optimiser."""
    from gpnn.storage.tensors import write_tensors

    random = torch.Generator().manual_seed(0)
    names = ("model/embedding", "best/embedding", "optimizer/0/exp_avg", "optimizer/0/exp_avg_sq")
    tensors = {name: torch.rand(num_nodes // 2, 40, generator=random) for name in names}
    write_tensors(folder / "training.safetensors", tensors, {"checkpoint": 1})
    return folder / "training.safetensors"


def read_shard_file(path: Path, *, digests: bool) -> float:
    """Read the shard, and the features that training would read first."""
    from gpnn.distributed import read_index, read_shard

    index = read_index(path.parent)
    _, columns = read_shard(index if digests else replace(index, digests=None), 0, 2)
    return float(columns["x"].sum())


def read_checkpoint(path: Path, *, digests: bool) -> float:
    """Copy the tensors out of the file, as :func:`gpnn.storage.tensors.read_tensors` does."""
    from safetensors.torch import load_file

    from gpnn.storage.tensors import read_tensors

    if digests:
        tensors, _ = read_tensors(path, "a checkpoint")
    else:
        tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    return sum(float(tensor[0, 0]) for tensor in tensors.values())


READ = {"shard": read_shard_file, "checkpoint": read_checkpoint}
WRITE = {"shard": write_shard, "checkpoint": write_checkpoint}


def measure(kind: str, path: Path, *, digests: bool, cold: bool, alone: bool) -> None:
    """Print the wall and CPU seconds of one reading in this process."""
    import gpnn.distributed
    import gpnn.storage.tensors  # noqa: F401

    torch.set_num_threads(1)
    (drop if cold else warm)(path)
    if alone:
        come_first()
    began, used = time.perf_counter(), time.process_time()
    READ[kind](path, digests=digests)
    print(time.perf_counter() - began, time.process_time() - used)


def come_first() -> None:
    """Give this process and its threads the cores before all other work of the machine."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def drop(path: Path) -> None:
    """Let the system forget the file."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def warm(path: Path) -> float:
    """Seconds to read the file once, block by block."""
    began, buffer = time.perf_counter(), bytearray(1 << 18)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def compare(kind: str, path: Path, cold: bool, options: argparse.Namespace) -> dict[str, float]:
    """Median seconds with and without digests, taking turns."""
    seconds: dict[bool, list[list[float]]] = {True: [], False: []}
    for _ in range(options.repeats):
        for digests in (True, False):
            words = [sys.executable, __file__, "--one", kind, str(path), str(int(digests)), str(int(cold))]
            words += ["--alone"] if options.alone else []
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            seconds[digests].append([float(word) for word in done.stdout.split()])
    median = {each: [statistics.median(column) for column in zip(*rows)] for each, rows in seconds.items()}
    return {
        "without": median[False][0],
        "with": median[True][0],
        "more": median[True][0] / median[False][0] - 1,
        "cpu_without": median[False][1],
        "cpu_with": median[True][1],
    }


def speeds(path: Path) -> dict[str, float]:
    """GB/s of sha256 in one thread, and of reading the file from disk and cached."""
    size, block = path.stat().st_size / 1e9, bytes(1 << 26)
    drop(path)
    found = {"disk": size / warm(path), "cache": size / warm(path)}
    began = time.perf_counter()
    hashlib.sha256(block).hexdigest()
    return found | {"sha256": len(block) / 1e9 / (time.perf_counter() - began)}


def report(rows: list[str], found: dict[str, float], options: argparse.Namespace) -> str:
    """The page."""
    alone = " --alone" if options.alone else ""
    shared = ", readings with real-time priority over the machine's other work" if options.alone else ""
    lines = [
        "# What digests cost where large files are read back",
        "",
        f"    python benchmarks/digests.py --nodes {options.nodes} --repeats {options.repeats}{alone} --out FILE",
        "",
        f"A reading is a fresh process; with and without digests take turns, medians of {options.repeats}. Machine:",
        f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load average {options.load:.1f}{shared};",
        f"torch {torch.__version__}, Python {platform.python_version()}. sha256 takes {found['sha256']:.2f} GB/s in a",
        f"thread; the file comes at {found['disk']:.2f} GB/s from disk, {found['cache']:.2f} GB/s cached.",
        "",
        "| file | MB | where it is | s without | s with | more | CPU s without | CPU s with |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all kinds, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--alone", action="store_true", help="read with real-time priority (needs root)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=4, metavar=("KIND", "PATH", "DIGESTS", "COLD"))
    options = parser.parse_args()
    if options.one:
        kind, path, digests, cold = options.one
        measure(kind, Path(path), digests=digests == "1", cold=cold == "1", alone=options.alone)
        return
    options.load, rows = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = WRITE[kind](Path(folder), options.nodes)
            for cold in (True, False):
                row = compare(kind, path, cold, options)
                where, size = "disk" if cold else "page cache", path.stat().st_size / 1e6
                rows.append(
                    f"| {kind} | {size:,.0f} | {where} | {row['without']:.2f} | {row['with']:.2f} | "
                    f"{100 * row['more']:+.0f} % | {row['cpu_without']:.2f} | {row['cpu_with']:.2f} |"
                )
                print(rows[-1], flush=True)
        if options.alone:
            come_first()
        found = speeds(path)
    text = report(rows, found, options)
    if options.out:
        options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
