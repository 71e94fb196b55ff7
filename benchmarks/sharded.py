"""Training in several processes: bytes sent, speed and memory, beside what the cost model says.

    python benchmarks/sharded.py --out benchmarks/results/sharded

A GRU of 64 channels trains for a few epochs on a planted and on an R-MAT graph, T = 3 rounds, T_S = 1 to 4 steps
inside subgraphs and T_C = 1 over the cut, in 1, 2 and 4 processes with one thread each, all from one folder of shards.
Bytes are counted where they are sent, forward and backward. Synchronous propagation of the same depth is run as well,
and `held_cut`: three rounds of four steps, beside twelve synchronous ones.
Schedules take turns. Seconds are medians over the epochs after the first, then over turns; those of the held cut and
of synchronous propagation are compared turn by turn. CPU seconds are those of one process. Memory is the most that a
process had resident while it trained, less what it had before it read its shard. "Waited" are the seconds of an epoch
that a process waits for rows or for their gradients, the mean over processes. The cost model's constants come from one
process; what it says of two and four is a prediction.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from process import cpu_seconds, describe_machine, peak_bytes, reset_peak

CHANNELS, ROUNDS = 64, 3
GRAPHS = {
    "planted": {"num_nodes": 32_768, "num_classes": 16, "degree": 12.0, "mixing": 0.1, "num_features": 100},
    "rmat": {"scale": 14, "edge_factor": 8, "num_classes": 8, "num_features": 100},
    "dense": {"num_nodes": 4_096, "num_classes": 16, "degree": 80.0, "mixing": 0.1, "num_features": 100},
}
CALIBRATION = ("dense",)  # run in one process only: it tells the speed of messages from that of updates
SCHEDULES = {f"T_S = {intra}": ("partitioned", {"intra": intra, "cut": 1}, ROUNDS) for intra in (1, 2, 3, 4)}
SCHEDULES["synchronous, depth 9"] = ("synchronous", {}, 9)
SCHEDULES["held, 3 × 4 steps"] = ("held_cut", {"intra": 4}, ROUNDS)
SCHEDULES["synchronous, depth 12"] = ("synchronous", {}, 12)


def prepare(name: str, folder: Path, num_parts: int) -> dict:
    """Write a graph's shards; the cut of its partition."""
    import gpnn
    from gpnn.build.shard_data import write_data

    data = gpnn.load_dataset("rmat" if name == "rmat" else "planted", **GRAPHS[name])
    part = gpnn.partition_graph(data, num_parts, method="refined", seed=0)
    write_data(data, part, 4, folder, name=name)
    quality = part.quality(data)
    sizes = {"nodes": data.num_nodes, "edges": data.num_edges}
    return {**sizes, "cut edges": quality.edge_cut, "cut nodes": quality.num_cut_nodes / data.num_nodes}


class Clock:
    """CPU seconds of each epoch."""

    def start(self, history: list) -> None:
        self.at, self.epochs = cpu_seconds(), []

    def epoch(self, record: dict) -> None:
        self.epochs.append(cpu_seconds() - self.at)
        self.at = cpu_seconds()


class Waits:
    """Seconds that this process has waited for exchanges."""

    def __init__(self) -> None:
        from gpnn.distributed.halo_exchange import PendingExchange

        self.seconds, finish = 0.0, PendingExchange._finish_transfer

        def timed(pending: PendingExchange) -> None:
            began = time.perf_counter()
            finish(pending)
            self.seconds += time.perf_counter() - began

        PendingExchange._finish_transfer = timed  # type: ignore[method-assign]


@cache
def waits() -> Waits:
    return Waits()


def work(folders: list[str], epochs: int, turns: int, port: int, rank: int, size: int) -> None:
    """What one process does: every schedule on every graph; the first process prints everyone's metrics."""
    group = join_all(port, rank, size)
    metrics = {"link": measure_link(group)}
    measure(folders[0], "T_S = 1", 2, group)  # compiles kernels and loads libraries
    for folder in folders:
        found = [{name: measure(folder, name, epochs, group) for name in SCHEDULES} for _ in range(turns)]
        metrics[Path(folder).name] = {name: over_turns([turn[name] for turn in found]) for name in SCHEDULES}
    if rank == 0:
        print(json.dumps(metrics))


def join_all(port: int, rank: int, size: int):
    """This process's group, one thread each."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    import torch
    import torch_geometric.data  # noqa: F401  counted before a shard is

    torch.set_num_threads(1)
    from gpnn.distributed.launch import Launch, join

    return join(Launch(rank, size, rank, size), 600).training_group(torch.device("cpu"))


def measure(folder: str, name: str, epochs: int, group) -> dict:
    """The metrics of one schedule: seconds, bytes and memory, by rank where ranks differ."""
    import torch

    from gpnn.build.shard_data import read_own
    from gpnn.distributed import lower_shard, read_index
    from gpnn.nn import GPNN
    from gpnn.train import Recipe, fit

    before, waited = reset_peak(), waits().seconds
    schedule, options, rounds = SCHEDULES[name]
    shard, data = read_own(read_index(folder), group)
    del data.val_mask, data.test_mask
    plan = lower_shard(shard, group, schedule=schedule, rounds=rounds, options=options, normalization="graph")
    model = GPNN(data.x.shape[1], CHANNELS, data.num_classes, cell="gru", concat="none")
    clock = Clock()
    recipe = Recipe(epochs=epochs, check_every=epochs + 1, patience=0)
    history = fit(model, data, plan, recipe=recipe, callbacks=[clock]).history
    rows = 0 if plan.halo is None else len(plan.halo.send_rows) + plan.halo.num_received
    memory = group.all_gather(torch.tensor([peak_bytes() - before, shard.num_own, rows // 2, len(shard.edges)]))
    waited = (waits().seconds - waited) / epochs
    seconds = torch.stack(group.all_gather(torch.tensor([median(clock.epochs[1:]), waited])[None]))[:, 0]
    return {
        "wall": median(record["seconds"] for record in history[1:]),
        "epochs": [record["seconds"] for record in history[1:]],
        "cpu": float(seconds[:, 0].max()),
        "waited": float(seconds[:, 1].mean()),
        "sent": history[-1]["sent_bytes"],
        "synchronous": history[-1]["synchronous_bytes"],
        "memory": max(int(each[0]) for each in memory),
        "nodes": max(int(each[1]) for each in memory),
        "halo": max(int(each[2]) for each in memory),
        "edges": max(int(each[3]) for each in memory),
        "loss": history[-1]["loss"],
    }


def over_turns(rows: list[dict]) -> dict:
    """The medians of one schedule's metrics, and the seconds of each turn."""
    medians = {name: median(row[name] for row in rows) for name in rows[0] if name != "epochs"}
    return medians | {"turns": {name: [row[name] for row in rows] for name in ("wall", "cpu")}}


def measure_link(group) -> dict:
    """Bytes a second and seconds an exchange between processes of this machine."""
    import torch

    if group.size == 1:
        return {}
    metrics = {}
    for name, rows in (("latency", 1), ("bandwidth", 1 << 18)):
        counts = [0 if rank == group.rank else rows for rank in range(group.size)]
        values = torch.zeros(sum(counts), 16)
        took = []
        for _ in range(15):
            group.barrier()
            began = time.perf_counter()
            group.all_to_all(values, counts, counts)
            took.append(time.perf_counter() - began)
        metrics[name] = median(took) if rows == 1 else values.numel() * 4 / median(took)
    return metrics


def run(folders: list[Path], epochs: int, size: int, script: str = __file__, **more: int) -> dict:
    """The metrics of `size` processes of a script."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spec = json.dumps({"folders": [*map(str, folders)], "epochs": epochs, "port": port, "size": size, **more})
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, script, "--worker", spec, "--rank", str(rank)], env=environment, stdout=subprocess.PIPE
        )
        for rank in range(size)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a process of the benchmark failed")
    return json.loads(outputs[0].splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where to write: NAME.json and NAME.md")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(**json.loads(options.worker), rank=options.rank)
        return
    from sharded_table import describe

    load = os.getloadavg()[0]
    results: dict = {"machine": describe_machine(), "load": load, "epochs": options.epochs, "turns": options.turns}
    results |= {"graphs": {}, "processes": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / name for name in GRAPHS]
        for folder in folders:
            results["graphs"][folder.name] = prepare(folder.name, folder, options.parts)
        for size in (1, 2, 4):
            chosen = [folder for folder in folders if size == 1 or folder.name not in CALIBRATION]
            results["processes"][str(size)] = run(chosen, options.epochs, size, turns=options.turns)
    text = describe(results, channels=CHANNELS, rounds=ROUNDS)
    print(text)
    if options.out:
        options.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
