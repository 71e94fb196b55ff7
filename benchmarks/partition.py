"""Partitioners side by side: time, peak memory and quality, each graph, method and K in a fresh process.

    python benchmarks/partition.py --scratch /var/tmp/graphs --json benchmarks/results/partition.json \\
        --graphs grid:1000 planted:1000000:10 rmat:20:8.5 --methods flood_fill refined metis --parts 10 100
    python benchmarks/partition.py --json benchmarks/results/partition.json --table

Runs add to the file; `--table` prints all of it. Times are CPU seconds of one thread, the median of the repeats, from
the edge list to the labels; other people's methods also show the time inside their own call. Memory is the peak of
resident memory above what was resident before the call (edge list and libraries), over the bytes of the CSR arrays.
"""

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for the oracle under tests/


def main() -> None:
    options = _arguments()
    if options.measure:
        print(json.dumps(measure(*options.measure, options.repeats)))
        return
    rows = json.loads(options.json.read_text()) if options.json.exists() else []
    for name in options.graphs:
        home = _graph(name, options)
        for method in options.methods:
            for k in options.parts:
                row = {"graph": name, "method": method, "k": k, **_run(home, method, k, options)}
                print(row, flush=True)
                same = [(row["graph"], row["method"], row["k"]) == (o["graph"], o["method"], o["k"]) for o in rows]
                rows = [other for other, equal in zip(rows, same) if not equal] + [row]
                options.json.write_text(json.dumps(rows, indent=0) + "\n")
    if options.table:
        from partition_table import table

        print(table(rows))


def measure(home: str, method: str, k: str, repeats: int) -> dict[str, Any]:
    """Figures of one method on one graph, in this process."""
    import numpy as np
    import torch
    from partition_peers import PEERS, divide

    from gpnn import Graph, Partition

    began = time.process_time()
    node = torch.arange(4096).view(64, 64)
    pairs = torch.cat(
        [torch.stack([node[:-1], node[1:]]).flatten(1), torch.stack([node[:, :-1], node[:, 1:]]).flatten(1)], 1
    )
    if method not in PEERS:  # loads or compiles what the method runs
        divide(method, Graph(*torch.cat([pairs, pairs.flip(0)], 1), 4096), 4, 0)
    warm_up = time.process_time() - began
    ends = [torch.from_numpy(np.load(Path(home) / f"{name}.npy")) for name in ("src", "dst")]
    graph = Graph(*ends, int((Path(home) / "num_nodes.txt").read_text()))
    runs = []
    for seed in range(repeats):
        before = _resident()
        wall, cpu = time.perf_counter(), time.process_time()
        labels, inner = divide(method, graph, int(k), seed)
        run = {"seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall, **inner}
        run["memory"] = _status("VmHWM") - before
        quality = Partition(torch.from_numpy(np.asarray(labels, np.int64)), int(k)).quality(graph)
        run |= {"cut": quality.edge_cut, "balance": quality.balance, "edge_balance": quality.edge_balance}
        run |= {"halo": sum(quality.halo), "empty": quality.num_empty}
        runs.append(run)
    metrics = {name: median(run[name] for run in runs) for name in runs[0]}
    metrics["memory"] = max(run["memory"] for run in runs)  # later runs may find freed memory still resident
    csr_bytes = 8 * (graph.num_nodes + 1) + 4 * graph.num_edges
    sizes = {"num_nodes": graph.num_nodes, "num_edges": graph.num_edges, "repeats": repeats}
    worst = max(run["balance"] for run in runs)
    return metrics | sizes | {"memory_ratio": metrics["memory"] / csr_bytes, "warm_up": warm_up, "worst_balance": worst}


def _run(home: Path, method: str, k: int, options: argparse.Namespace) -> dict[str, Any]:
    """The metrics that a fresh process prints, or why there are none."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--measure", str(home), method, str(k), "--repeats", str(options.repeats)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | threads, timeout=options.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {options.timeout} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1]) | {"machine": _machine()}


def _graph(name: str, options: argparse.Namespace) -> Path:
    """The folder of a graph, made in a process of its own so that its memory goes back."""
    code = "import sys, pathlib, partition_graphs as g; print(g.make(sys.argv[1], pathlib.Path(sys.argv[2])))"
    command = [sys.executable, "-c", code, name, str(options.scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    return Path(done.stdout.strip())


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _resident() -> int:
    """Resident bytes now; the peak counts from here (Linux)."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="*", default=[], help="grid:SIDE planted:NODES:DEGREE rmat:SCALE:FACTOR")
    parser.add_argument("--methods", nargs="*", default=["flood_fill", "refined", "metis"])
    parser.add_argument("--parts", nargs="*", type=int, default=[10, 100])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=1800)
    parser.add_argument("--scratch", type=lambda path: Path(path).resolve(), default=Path("partition-graphs").resolve())
    parser.add_argument("--json", type=Path, default=Path("partition.json"))
    parser.add_argument("--table", action="store_true", help="print the tables of everything measured so far")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
