"""How much faster is an update than predicting all nodes anew?

    python benchmarks/update.py --out benchmarks/results/update.md

Two graphs of a million nodes and ten million directed edges: a clustered one, communities on a ring of which 1 edge in
100 leads to one of the next communities, and a random one. A classifier is trained for one epoch, which is enough to
have a model. Then a thousandth of the nodes is new, with as many edges each as the others have: in the clustered graph
they are a new community and its neighbours' friends, in the random one they are joined to anyone. `update` is
`GPNNClassifier.update`, after the call that keeps the states; `all` is `GPNNClassifier.predict_proba` on the new graph, in
the same process. The differences are those of the probabilities. Later updates, and one that takes the new nodes away
again, are timed as well.
"""

import argparse
import os
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from torch_geometric.data import Data

COMMUNITY, DEGREE, NUM_CLASSES, NUM_FEATURES = 1000, 10, 10, 32
CROSSING = 0.01  # of the edges of the clustered graph
MODELS: dict[str, dict[str, Any]] = {
    "linear, partitioned": {"cell": "linear", "schedule": "partitioned", "rounds": 2},
    "GRU, synchronous": {"cell": "gru", "schedule": "synchronous", "rounds": 2, "hidden_channels": 32},
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
    here = near * COMMUNITY + rng.integers(0, COMMUNITY, len(src)) if kind == "clustered" else anyone(src, num_nodes, rng)
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


def timed(call: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def measure(kind: str, name: str, num_nodes: int) -> dict[str, Any]:
    """Seconds of an update and of predicting all, and how far they differ."""
    import gpnn

    data = make_graph(kind, num_nodes)
    settings = {"partition": "random", "k": max(2, num_nodes // 6000), "epochs": 1, "validation_fraction": 0.0}
    classifier = gpnn.GPNNClassifier(**settings, **MODELS[name], device="cpu")
    fit_s, _ = timed(lambda: classifier.fit(data))
    first_s, _ = timed(classifier.update)
    x, edges = draw_change(kind, num_nodes, 1)
    update_s, found = timed(lambda: classifier.update(x, edges))
    new = grown(data, x, edges)
    all_s, wanted = timed(lambda: classifier.predict_proba(new))
    mine = classifier.predict_frame()
    shown = np.stack([mine[f"p_{each}"].to_numpy() for each in classifier.classes_], 1)
    removed = list(range(num_nodes, num_nodes + len(x)))
    back_s, _ = timed(lambda: classifier.update(removed_nodes=removed))
    return {
        "graph": kind,
        "model": name,
        "fit_s": fit_s,
        "first_s": first_s,
        "update_s": update_s,
        "all_s": all_s,
        "back_s": back_s,
        "computed": found.num_rows,
        "difference": float(abs(shown - wanted).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--graph", choices=list(ENDS))
    parser.add_argument("--model", choices=list(MODELS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in ENDS if options.graph is None else [options.graph]:
        for name in MODELS if options.model is None else [options.model]:
            print(measure(kind, name, options.nodes), flush=True)


if __name__ == "__main__":
    main()
