"""How fast is a folder of tables read? gpnn beside pandas, which does the same with its own vectorised tools.

    python benchmarks/tables.py --out benchmarks/results/tables.md

A graph of a million nodes (a label, a column of numbers, a column of categories) and ten million edges, written in each
format with whole numbers and with text as ids. A measurement is a fresh process that reads the folder once: wall
seconds, CPU seconds (user and system) and peak resident memory, imports not counted; the table shows medians. Both
give the same edges, features and labels, which the first repetition compares.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CASES = (("csv", "numbers"), ("csv", "text"), ("parquet", "numbers"), ("parquet", "text"), ("npz", "numbers"))
READERS = ("gpnn", "pandas")


def write(folder: Path, format_: str, kind: str, num_nodes: int, num_edges: int) -> None:
    """One folder with `nodes` and `edges`."""
    random = np.random.default_rng(0)
    ids = random.permutation(num_nodes)
    names = np.char.add("user-", ids.astype(str)) if kind == "text" else ids
    nodes = {
        "id": names,
        "label": np.array(["red", "green", "blue"])[ids % 3],
        "age": random.normal(40, 10, num_nodes).round(2),
        "city": np.array(["Oslo", "Rome", "Kyiv", "Lima"])[random.integers(0, 4, num_nodes)],
    }
    ends = {end: names[random.integers(0, num_nodes, num_edges)] for end in ("source", "target")}
    for stem, columns in (("nodes", nodes), ("edges", ends)):
        _write_table(folder / f"{stem}.{format_}", columns)


def _write_table(path: Path, columns: dict[str, np.ndarray]) -> None:
    import pyarrow
    from pyarrow import csv, parquet

    if path.suffix == ".npz":
        np.savez(path, **columns)
    elif path.suffix == ".parquet":
        parquet.write_table(pyarrow.table(columns), path)
    else:
        options = csv.WriteOptions(delimiter="," if path.suffix == ".csv" else "\t", quoting_style="none")
        csv.write_csv(pyarrow.table(columns), path, options)


def read_gpnn(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges `[2, E]`, features `[N, F]` and labels `[N]`, by gpnn."""
    from gpnn.data import load_dataset

    data = load_dataset(folder)
    return data.edge_index.numpy(), data.x.numpy(), data.y.numpy()


def read_pandas(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same by pandas: `read_csv` or `read_parquet`, an index for ids, dummies for categories."""
    import pandas

    nodes, edges = (_frame(pandas, folder, stem) for stem in ("nodes", "edges"))
    index = pandas.Index(nodes["id"])
    if not index.is_unique:
        raise ValueError("ids must be distinct")
    ends = np.stack([index.get_indexer(edges[end]) for end in ("source", "target")])
    if ends.min() < 0:
        raise ValueError("every end must be a node")
    age = (nodes["age"] - nodes["age"].mean()) / nodes["age"].std(ddof=0)
    x = np.column_stack([age, pandas.get_dummies(nodes["city"])]).astype(np.float32)
    return ends, x, pandas.Categorical(nodes["label"]).codes.astype(np.int64)


def _frame(pandas, folder: Path, stem: str):
    path = next(folder.glob(f"{stem}.*"))
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return pandas.DataFrame({name: arrays[name] for name in arrays.files})
    if path.suffix == ".parquet":
        return pandas.read_parquet(path)
    return pandas.read_csv(path, sep="," if path.suffix == ".csv" else "\t")


def measure(reader: str, folder: Path) -> None:
    """Print the seconds, CPU seconds and peak MiB of one reading, and a digest of what was read."""
    import hashlib

    import pyarrow.parquet  # noqa: F401

    if reader == "gpnn":
        import torch_geometric.data  # noqa: F401

        import gpnn.data  # noqa: F401
    else:
        import pandas  # noqa: F401
    began, used = time.perf_counter(), _cpu()
    edges, x, y = (read_gpnn if reader == "gpnn" else read_pandas)(folder)
    seconds, cpu = time.perf_counter() - began, _cpu() - used
    memory = _peak()
    digest = hashlib.sha256(np.ascontiguousarray(edges, np.int64).tobytes() + y.tobytes()).hexdigest()
    print(seconds, cpu, memory, digest, float(np.abs(x).sum()))


def _peak() -> float:
    """The peak resident memory of this process in MiB; `getrusage` would count what it was forked from."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def compare(folder: Path, repeats: int) -> dict[str, list[float]]:
    """The medians of each reader; the readers take turns, and must agree."""
    metrics: dict[str, list[list[float]]] = {reader: [] for reader in READERS}
    answers = set()
    for _ in range(repeats):
        for reader in READERS:
            command = [sys.executable, __file__, "--measure", reader, str(folder)]
            words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            metrics[reader].append([float(word) for word in words[:3]])
            answers.add((words[3], round(float(words[4]) / 1000)))
    if len(answers) != 1:
        raise RuntimeError(f"the readers disagree: {answers}")
    return {reader: [statistics.median(column) for column in zip(*rows)] for reader, rows in metrics.items()}


def main() -> None:
    """Measure every format, or one reading in this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=2)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
        return
    lines = [
        "| format | ids | MB | gpnn s | gpnn CPU s | gpnn MiB | pandas s | pandas CPU s | pandas MiB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for format_, kind in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, format_, kind, options.nodes, options.edges)
            size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            medians = compare(folder, options.repeats)
        cells = [f"{seconds:.1f} | {cpu:.1f} | {memory:,.0f}" for seconds, cpu, memory in medians.values()]
        lines.append(f"| {format_} | {kind} | {size:,.0f} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    text = _report(options, "\n".join(lines))
    if options.out:
        options.out.write_text(text)
    else:
        print(text)


def _report(options: argparse.Namespace, table: str) -> str:
    import pandas
    import pyarrow

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = f"pyarrow {pyarrow.__version__}, pandas {pandas.__version__}, Python {platform.python_version()}"
    return f"""# Reading a folder of tables

    python benchmarks/tables.py --nodes {options.nodes} --edges {options.edges} --repeats {options.repeats} --out FILE

{options.nodes:,} nodes with a label, a number and a category, {options.edges:,} edges; medians of {options.repeats}
reading(s), each in a fresh process, taking turns. Both give the same edges, features and labels; gpnn also checks every
value, draws a split and looks the graph over. "MiB" is the peak of the process; torch's import is 450 of gpnn's.
Machine: {platform.machine()}, {os.cpu_count()} cores shared with other work, {memory:.0f} GiB; {versions}.

{table}
"""


if __name__ == "__main__":
    main()
