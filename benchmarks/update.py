"""How much faster is an update than predicting all nodes anew?

    python benchmarks/update.py --out benchmarks/results/update.md

Two graphs of a million nodes and ten million directed edges: a clustered one, communities of a thousand nodes on a ring
of which 1 edge in 100 leads to the next community, and a random one. A classifier is trained for one epoch, which is
enough to have a model. Then a thousandth of the nodes is new, with half of their edges among themselves; in the
clustered graph the others lead to one community, in the random one to anyone. "update" is `GPNNClassifier.update` in a
process that has the states of the graph (the first call, which predicts all and keeps them, is "first"); "all" is
`GPNNClassifier.predict_proba` on the new graph in the same process, with the same threads. "removed" takes the new
nodes away again. Each figure is the median of `--repeats` changes (of "all": of at most three), in CPU seconds of the
process and in wall seconds. The difference is the largest of any probability between "update" and "all". Where a change
reaches more than half of the nodes, an update computes all and keeps the states anew.
"""

import argparse
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from torch_geometric.data import Data

COMMUNITY, DEGREE, NUM_CLASSES, NUM_FEATURES = 1000, 10, 10, 32
KINDS = ("CPU", "wall")
MOST_WHOLE = 3  # predictions of all nodes
CROSSING = 0.01  # of the edges of the clustered graph
MODELS: dict[str, dict[str, Any]] = {
    "linear, 5 rounds inside and over the cut": {"cell": "linear", "rounds": 5, "partition": "flood_fill"},
    "GRU, 2 synchronous rounds": {"cell": "gru", "schedule": "synchronous", "rounds": 2, "hidden_channels": 32},
}


def clustered(nodes: np.ndarray, num_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Another end for each of the nodes: in its own community, or in one of the next."""
    home = nodes // COMMUNITY
    crosses = rng.random(len(nodes)) < CROSSING
    home = (home + crosses * rng.choice([-1, 1], len(nodes))) % (num_nodes // COMMUNITY)
    return home * COMMUNITY + rng.integers(0, COMMUNITY, len(nodes))


def anyone(nodes: np.ndarray, num_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Another end for each of the nodes, whoever it is."""
    return rng.integers(0, num_nodes, len(nodes))


ENDS = {"clustered": clustered, "random": anyone}


def make_graph(kind: str, num_nodes: int, seed: int = 0) -> Data:
    """Nodes with a few labels, each with `DEGREE` edges into it and out of it on average."""
    rng = np.random.default_rng(seed)
    src = np.repeat(np.arange(num_nodes), DEGREE // 2)
    dst = ENDS[kind](src, num_nodes, rng)
    y = np.arange(num_nodes) // COMMUNITY % NUM_CLASSES
    x = rng.normal(size=(num_nodes, NUM_FEATURES)).astype(np.float32)
    x[np.arange(num_nodes), y] += 1
    data = Data(x=torch.from_numpy(x), y=torch.from_numpy(y), num_nodes=num_nodes)
    data.edge_index = torch.from_numpy(np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])]))
    data.train_mask = torch.from_numpy(rng.random(num_nodes) < 0.01)
    return data


def draw_change(kind: str, num_nodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of new nodes, and the edges that join them, both ways."""
    rng, new = np.random.default_rng(seed), num_nodes // 1000
    ids = num_nodes + np.arange(new)
    near = rng.integers(0, num_nodes // COMMUNITY)  # the community that the new nodes come to
    src = np.repeat(ids, DEGREE // 2)
    here = (
        near * COMMUNITY + rng.integers(0, COMMUNITY, len(src)) if kind == "clustered" else anyone(src, num_nodes, rng)
    )
    dst = np.where(rng.random(len(src)) < 0.5, here, rng.choice(ids, len(src)))
    edges = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])])
    return rng.normal(size=(new, NUM_FEATURES)).astype(np.float32), edges


def grown(data: Data, x: np.ndarray, edges: np.ndarray) -> Data:
    """The graph with the new nodes."""
    new = len(x)
    return Data(
        x=torch.cat([data.x, torch.from_numpy(x)]),
        edge_index=torch.cat([data.edge_index, torch.from_numpy(edges)], 1),
        num_nodes=data.num_nodes + new,
    )


class Seconds(NamedTuple):
    """CPU seconds of the process, and wall seconds."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return " | ".join(f"{each:.3f}" if each < 1 else f"{each:.1f}" for each in self)


def timed(call: Callable[[], Any]) -> tuple[Seconds, Any]:
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall), result


def median(found: list[Seconds]) -> Seconds:
    return Seconds(*(statistics.median(each) for each in zip(*found)))


def measure(kind: str, name: str, num_nodes: int, repeats: int) -> dict[str, Any]:
    """Seconds of an update and of predicting all, and how far they differ."""
    import gpnn

    data = make_graph(kind, num_nodes)
    classifier = gpnn.GPNNClassifier(**MODELS[name], epochs=1, validation_fraction=0.0, device="cpu").fit(data)
    first, _ = timed(classifier.update)
    classifier.update(np.zeros((1, NUM_FEATURES), np.float32), [["x"], [0]], ids=["x"])  # compiles
    classifier.update(removed_nodes=["x"])
    taken: dict[str, list[Seconds]] = {"update": [], "removed": [], "all": []}
    computed, difference = [], 0.0
    for repeat in range(repeats):
        x, edges = draw_change(kind, num_nodes, 1 + repeat)
        ids = list(range(num_nodes, num_nodes + len(x)))
        seconds, found = timed(partial(classifier.update, x, edges, ids=ids))
        taken["update"].append(seconds)
        computed.append(found.num_rows)
        if repeat < MOST_WHOLE:
            new = grown(data, x, edges)
            seconds, wanted = timed(partial(classifier.predict_proba, new))
            taken["all"].append(seconds)
            shown = classifier.predict_frame()
            shown = np.stack([shown[f"p_{each}"].to_numpy() for each in classifier.classes_], 1)
            difference = max(difference, float(abs(shown - wanted).max()))
        taken["removed"].append(timed(partial(classifier.update, removed_nodes=ids))[0])
    row = {name: median(found) for name, found in taken.items()}
    times = [whole / part for whole, part in zip(row["all"], row["update"])]
    computed = round(statistics.median(computed))
    return {"graph": kind, "model": name, "computed": computed, "first": first, **row} | {
        "times": times,
        "difference": difference,
    }


def page(rows: list[dict[str, Any]], num_nodes: int) -> str:
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, load average {os.getloadavg()[0]:.1f}"
    command = f"    python benchmarks/update.py --nodes {num_nodes} --out FILE"
    head = f"# An update beside predicting all\n\n{command}\n\n{about}\n\n"
    busy = "Other work kept the cores busy, which the wall seconds show." if os.getloadavg()[0] > 3 else ""
    names = [f"{each} {kind}" for each in ("first", "update", "removed", "all", "times faster") for kind in KINDS]
    lines = [f"| graph | model | nodes computed | {' | '.join(names)} | difference |", "|---|---" + "|---:" * 12 + "|"]
    for row in rows:
        seconds = " | ".join(str(row[name]) for name in ("first", "update", "removed", "all"))
        times = " | ".join(f"{each:.1f}" for each in row["times"])
        lines.append(
            f"| {row['graph']} | {row['model']} | {row['computed']:,} | {seconds} | {times} | {row['difference']:.0e} |"
        )
    return f"{head}Machine: {machine}; torch {torch.__version__}. {busy}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--graph", choices=list(ENDS), action="append")
    parser.add_argument("--model", choices=list(MODELS), action="append")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for kind in options.graph or ENDS:
        for name in options.model or MODELS:
            rows.append(measure(kind, name, options.nodes, options.repeats))
            print(rows[-1], file=sys.stderr, flush=True)
    text = page(rows, options.nodes)
    print(text)
    if options.out is not None:
        from gpnn.storage.atomic import write_text

        write_text(options.out, text)


if __name__ == "__main__":
    main()
