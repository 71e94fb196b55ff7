"""What do digests cost where large files are read back? Each reading with its digests, and the same without.

    python benchmarks/digests.py --out benchmarks/results/digests.md

A shard of a graph of a million nodes and a checkpoint as large. A measurement is a fresh process that reads the file
once, all of it, imports not counted: `read_shard`, then every feature; `read_tensors`, which copies every tensor out of
the file. "Without" is the same code with a digest that does nothing; "plain" is safetensors' `load_file` and a copy of
each tensor. "Disk": the file is dropped from the page cache before; "page cache": it has just been read. The ways take
turns; "more" is a ratio less one.
"""

import argparse
import importlib
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

WAYS = ("with", "without", "plain")
HASHES = ("xxh3_128", "sha256", "blake2b")


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


def read_shard_file(path: Path, way: str) -> None:
    """Read the shard, and the features that training would read first."""
    from gpnn.distributed import read_index, read_shard

    index = read_index(path.parent)
    _, columns = read_shard(index if way == "with" else replace(index, digests=None), 0, 2)
    columns["x"].sum()


def read_checkpoint(path: Path, way: str) -> None:
    """Copy the tensors out of the file."""
    from safetensors.torch import load_file

    from gpnn.storage.tensors import read_tensors

    if way == "plain":
        tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    else:
        tensors, _ = read_tensors(path, "a checkpoint")
    sum(float(tensor[0, 0]) for tensor in tensors.values())


READ: dict[str, Callable[[Path, str], None]] = {"shard": read_shard_file, "checkpoint": read_checkpoint}
WRITE = {"shard": write_shard, "checkpoint": write_checkpoint}


def leave_out_digests() -> None:
    """Let `read_tensors` do all but the digest."""
    from gpnn.storage import tensors

    class Nothing:
        def update(self, content: memoryview) -> None: ...

        def hexdigest(self) -> str:
            return ""

    check = tensors._is_sealed
    tensors._hasher = lambda algorithm: Nothing()
    tensors._is_sealed = lambda *arguments: check(*arguments) or True


def measure(kind: str, path: Path, way: str, *, alone: bool) -> list[float]:
    """The wall and CPU seconds of one reading in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(read_alone, kind, path, way, alone=alone).result()


def read_alone(kind: str, path: Path, way: str, *, alone: bool) -> list[float]:
    """The wall and CPU seconds of one reading in this process."""
    if alone:
        come_first()
    if way == "without":
        leave_out_digests()
    began, used = time.perf_counter(), time.process_time()
    READ[kind](path, way)
    return [time.perf_counter() - began, time.process_time() - used]


def come_first() -> None:
    """Give this process and its threads and children the cores before all other work of the machine."""
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


def compare(kind: str, path: Path, cold: bool, options: argparse.Namespace) -> dict[str, list[list[float]]]:
    """Wall and CPU seconds of each way, least and median, taking turns."""
    ways = WAYS if kind == "checkpoint" else WAYS[:2]
    seconds: dict[str, list[list[float]]] = {way: [] for way in ways}
    for _ in range(options.repeats):
        for way in ways:
            (drop if cold else warm)(path)
            seconds[way].append(measure(kind, path, way, alone=options.alone))
    return {way: [[min(each), statistics.median(each)] for each in zip(*rows)] for way, rows in seconds.items()}


def speeds(path: Path) -> dict[str, float]:
    """GB/s of each hash in one thread, of a piece in its cache, and of reading the file from disk and cached."""
    from gpnn.storage.tensors import PIECE, _hasher

    size, piece = path.stat().st_size / 1e9, os.urandom(PIECE)
    drop(path)
    found = {"disk": size / warm(path), "cache": size / warm(path)}
    for name in HASHES:
        digest, began = _hasher(name), time.perf_counter()
        for _ in range(1000):
            digest.update(piece)
        found[name] = 1000 * PIECE / 1e9 / (time.perf_counter() - began)
    return found


def line(kind: str, path: Path, cold: bool, found: dict[str, list[list[float]]]) -> str:
    """A row of the table."""
    where, size = "disk" if cold else "page cache", path.stat().st_size / 1e6
    seconds = lambda way, each: "{:.3f} ({:.3f})".format(*found[way][each]) if way in found else ""  # noqa: E731

    def more(way: str) -> str:
        ratios = [100 * (mine / theirs - 1) for mine, theirs in zip(found["with"][0], found.get(way, [[]])[0])]
        return "{:+.0f} % ({:+.0f} %)".format(*ratios) if ratios else ""

    columns = [seconds("with", 0), seconds("without", 0), more("without"), seconds("plain", 0), more("plain")]
    columns += [seconds("with", 1), seconds("without", 1)]
    return f"| {kind} | {size:,.0f} | {where} | {' | '.join(columns)} |"


def report(rows: list[str], found: dict[str, float], options: argparse.Namespace) -> str:
    """The page."""
    alone = " --alone" if options.alone else ""
    shared = ", readings with real-time priority over the machine's other work" if options.alone else ""
    hashes = ", ".join(f"{name} {found[name]:.2f}" for name in HASHES)
    lines = [
        f"# {__doc__.splitlines()[0]}",
        "",
        f"    python benchmarks/digests.py --nodes {options.nodes} --repeats {options.repeats}{alone} --out FILE",
        *__doc__.splitlines()[3:],
        "",
        f"The least of {options.repeats}, medians in parentheses. Machine: {platform.machine()},",
        f"{len(os.sched_getaffinity(0))} cores, load average {options.load:.1f}{shared};",
        f"torch {torch.__version__}, Python {platform.python_version()}.",
        "",
        "| file | MB | where it is | s with | s without | more | s plain | more | CPU s with | CPU s without |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"One thread reads a file at {found['disk']:.2f} GB/s from disk and at {found['cache']:.2f} GB/s from the page",
        f"cache, into a buffer that it has. Hashes of what lies in the cache, GB/s in one thread: {hashes}.",
        "The files have xxh3_128; those of older versions have sha256, and are compared by that.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--alone", action="store_true", help="read with real-time priority (needs root)")
    parser.add_argument("--only", nargs="+", default=tuple(READ), choices=READ)
    parser.add_argument("--out", type=Path)
    compare_all(parser.parse_args())


def compare_all(options: argparse.Namespace) -> None:
    """Write and print the page."""
    for name in ("gpnn.distributed", "gpnn.storage.tensors", "safetensors.torch"):  # in every child
        importlib.import_module(name)
    torch.set_num_threads(1)
    options.load, rows = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.only:
            path = WRITE[kind](Path(folder), options.nodes)
            for cold in (True, False):
                found = compare(kind, path, cold, options)
                rows.append(line(kind, path, cold, found))
                print(rows[-1], flush=True)
        if options.alone:
            come_first()
        speed = speeds(path)
    text = report(rows, speed, options)
    if options.out:
        options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
