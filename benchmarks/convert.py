"""How fast do tables become a graph on the disk, and in how much memory? `gpnn data convert` beside what sorts edges.

    python benchmarks/convert.py --edges 100e6 --nodes 10e6 --memory 4 --out benchmarks/results/convert.md

Two graphs, of uniform edges and of skewed degrees (R-MAT), as one Parquet file of edges and one of nodes whose ids are
whole numbers in random order. A measurement is a fresh process: wall seconds, CPU seconds and peak resident memory,
imports not counted. Contenders: gpnn (ids, symmetric rows, duplicates merged, digests); scipy (coo to csr) and pyarrow
(sort), which hold all edges in memory, and DuckDB (join and order by, with the same limit of memory, where it is
installed): they map ids, sort edges and write `ptr` and `col`. All must give the same rows.
"""

import argparse
import hashlib
import importlib.util
import json
import shutil
import time
from pathlib import Path

import numpy as np

from benchmarks.process import cpu_seconds, describe_machine, peak_bytes, run_alone

GRAPHS = ("uniform", "rmat")
CONTENDERS = ("gpnn", "scipy", "pyarrow", "duckdb")
BATCH = 1 << 22


def draw(graph: str, num_nodes: int, num_edges: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Some edges: uniform, or R-MAT with (0.57, 0.19, 0.19, 0.05)."""
    if graph == "uniform":
        src, dst = rng.integers(0, num_nodes, (2, num_edges))
        return src, dst
    src, dst = np.zeros(num_edges, np.int64), np.zeros(num_edges, np.int64)
    for _ in range(int(np.ceil(np.log2(num_nodes)))):
        u = rng.random(num_edges, np.float32)
        src, dst = 2 * src + (u >= 0.76), 2 * dst + (((u >= 0.57) & (u < 0.76)) | (u >= 0.95))
    return src % num_nodes, dst % num_nodes


def write(folder: Path, graph: str, num_nodes: int, num_edges: int) -> None:
    """`edges.parquet` and `nodes.parquet`, a batch at a time."""
    import pyarrow
    from pyarrow import parquet

    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng, writer = np.random.default_rng(0), None
    ids = rng.permutation(num_nodes)
    for start in range(0, num_edges, BATCH):
        ends = draw(graph, num_nodes, min(BATCH, num_edges - start), rng)
        table = pyarrow.table(dict(zip(("source", "target"), (ids[end] for end in ends))))
        writer = writer or parquet.ParquetWriter(folder / "edges.parquet", table.schema)
        writer.write_table(table, row_group_size=1 << 20)
    assert writer is not None
    writer.close()
    label = rng.integers(0, 8, num_nodes, dtype=np.int8)
    parquet.write_table(pyarrow.table({"id": ids, "label": label}), folder / "nodes.parquet")
    (folder / "done").touch()


def run_gpnn(folder: Path, out: Path, memory: float, threads: int) -> None:
    from gpnn.data.convert import ConvertSettings, convert

    settings = ConvertSettings(undirected=True, memory=memory * 1e9, threads=threads)
    convert(folder / "edges.parquet", folder / "nodes.parquet", out, settings=settings)


def _read(folder: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Both directions of all edges by row, in memory: receivers and senders."""
    from pyarrow import parquet

    ids = parquet.read_table(folder / "nodes.parquet", columns=["id"])["id"].to_numpy()
    place = np.empty(len(ids), np.int32)
    place[ids] = np.arange(len(ids), dtype=np.int32)
    edges = parquet.read_table(folder / "edges.parquet")
    src, dst = (place[edges[end].to_numpy()] for end in ("source", "target"))
    return np.concatenate([dst, src]), np.concatenate([src, dst]), len(ids)


def _save(out: Path, ptr: np.ndarray, col: np.ndarray) -> None:
    out.mkdir()
    np.save(out / "in_ptr.npy", ptr.astype(np.int64))
    np.save(out / "in_col.npy", col.astype(np.int32))


def run_scipy(folder: Path, out: Path, memory: float, threads: int) -> None:
    from scipy.sparse import coo_array

    rows, columns, size = _read(folder)
    matrix = coo_array((np.ones(len(rows), np.int8), (rows, columns)), (size, size)).tocsr()
    matrix.sum_duplicates()
    matrix.sort_indices()
    _save(out, matrix.indptr, matrix.indices)


def run_pyarrow(folder: Path, out: Path, memory: float, threads: int) -> None:
    import pyarrow

    pyarrow.set_cpu_count(threads)
    rows, columns, size = _read(folder)
    table = pyarrow.table({"row": rows, "column": columns})
    del rows, columns
    table = table.group_by(["row", "column"], use_threads=threads > 1).aggregate([])
    table = table.sort_by([("row", "ascending"), ("column", "ascending")])
    counts = np.bincount(table["row"].to_numpy(), minlength=size)
    _save(out, np.concatenate([[0], np.cumsum(counts)]), table["column"].to_numpy())


def run_duckdb(folder: Path, out: Path, memory: float, threads: int) -> None:
    import duckdb

    base = duckdb.connect(
        config={"memory_limit": f"{memory}GB", "threads": threads, "temp_directory": str(out) + ".tmp"}
    )
    base.execute(f"create table n as select id, row_number() over () - 1 as r from '{folder}/nodes.parquet'")
    base.execute(
        f"create table e as select s.r as s, t.r as t from '{folder}/edges.parquet' x "
        "join n s on x.source = s.id join n t on x.target = t.id"
    )
    both = "select distinct t as r, s as c from (select s, t from e union all select t, s from e) order by r, c"
    size = base.execute("select count(*) from n").fetchall()[0][0]
    counts, columns = np.zeros(size, np.int64), []
    for batch in base.sql(both).to_arrow_reader(1 << 20):
        counts += np.bincount(batch.column(0).to_numpy(), minlength=size)
        columns.append(batch.column(1).to_numpy().astype(np.int32))
    _save(out, np.concatenate([[0], np.cumsum(counts)]), np.concatenate(columns))


def measure(contender: str, folder: Path, memory: float, threads: int) -> None:
    """Print seconds, CPU seconds, peak bytes and a digest of the rows of one conversion."""
    import pyarrow.parquet  # noqa: F401

    if contender == "gpnn":
        import torch_geometric.data  # noqa: F401

        import gpnn.data.convert  # noqa: F401
    out = folder / f"out-{contender}"
    shutil.rmtree(out, ignore_errors=True)
    wall, cpu = time.perf_counter(), cpu_seconds()
    globals()[f"run_{contender}"](folder, out, memory, threads)
    wall, cpu, peak = time.perf_counter() - wall, cpu_seconds() - cpu, peak_bytes()
    digest = hashlib.sha256()
    for name in ("in_ptr", "in_col"):
        values = np.load(out / f"{name}.npy", mmap_mode="r")
        for start in range(0, len(values), 1 << 24):
            digest.update(np.ascontiguousarray(values[start : start + (1 << 24)]).data)
    shutil.rmtree(out)
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "edges": len(values), "digest": digest.hexdigest()}))


def present(contender: str) -> bool:
    return contender != "duckdb" or importlib.util.find_spec("duckdb") is not None


def report(rows: list[dict], command: str) -> str:
    """The results as a page."""
    lines = ["# From tables to a graph on the disk", "", describe_machine(), "", f"`{command}`", ""]
    lines += [
        "| graph | edges in | rows' entries | contender | seconds | CPU seconds | peak GiB |",
        "|---|--:|--:|---|--:|--:|--:|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['graph']} | {row['input']:,} | | {row['contender']} | {row['failed']} | | |")
            continue
        numbers = f"{row['wall']:.1f} | {row['cpu']:.1f} | {row['peak'] / 2**30:.2f}"
        lines.append(f"| {row['graph']} | {row['input']:,} | {row['edges']:,} | {row['contender']} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=1e5)
    parser.add_argument("--edges", type=float, default=1e6)
    parser.add_argument("--memory", type=float, default=4.0, help="GB that gpnn and DuckDB may take")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("scratch/convert"))
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, given.folder, given.memory, given.threads)
        return
    rows = []
    for graph in given.graphs.split(","):
        folder = given.folder / f"{graph}-{int(given.nodes)}-{int(given.edges)}"
        write(folder, graph, int(given.nodes), int(given.edges))
        for contender in filter(present, given.contenders.split(",")):
            options = ["--folder", folder, "--memory", given.memory, "--threads", given.threads, "--measure", contender]
            found = run_alone(__file__, list(map(str, options)))
            rows.append({"graph": graph, "contender": contender, "input": int(given.edges), **found})
            print(rows[-1], flush=True)
        digests = {row["digest"] for row in rows if row["graph"] == graph and "digest" in row}
        assert len(digests) == 1, "the contenders must give the same rows"
    command = f"python benchmarks/convert.py --nodes {given.nodes:g} --edges {given.edges:g} --memory {given.memory:g}"
    page = report(rows, f"{command} --threads {given.threads}")
    print(page)
    if given.out:
        given.out.write_text(page)


if __name__ == "__main__":
    main()
