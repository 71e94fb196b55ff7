"""Do ten thousand updates of a graph leave memory as it was, and predictions as they should be?

    python benchmarks/soak_update.py --out benchmarks/results/soak_update.md

A classifier on `planted` follows its graph: every update takes some nodes (never the first hundred) and edges away,
brings as many, and gives another node new features. After every hundredth update the resident memory is read, and after
every thousandth all predictions are compared with those of the same model on the whole graph, built anew from Python's
lists.
Exits with 1 when, after the first two thousand updates, resident memory grows by more than 8 MiB, or a probability
differs by more than 1e-6.
"""

import argparse
import gc
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

SETTLED, MOST_GROWTH, MOST_DIFFERENCE = 2000, 8.0, 1e-6
STAY = 100  # nodes of the training: a graph without any is divided anew by a prediction, and not by an update
COMPARED, READ = 1000, 100  # updates between two comparisons, and between two readings


class Plain:
    """The graph as Python's lists, of ids that are never used twice."""

    def __init__(self, data: Data, seed: int = 0) -> None:
        self.x = dict(enumerate(data.x))
        self.edges = list(map(tuple, data.edge_index.T.tolist()))
        self.next_id, self.rng = data.num_nodes, np.random.default_rng(seed)

    def change(self, size: int = 3) -> dict[str, Any]:
        """Draw a change, and apply it; the arguments of `update`."""
        names, rng = list(self.x)[STAY:], self.rng
        gone = {names[place] for place in rng.choice(len(names), size, replace=False)}
        cut = {self.edges[place] for place in rng.choice(len(self.edges), size, replace=False)}
        cut = {edge for edge in cut if not gone & set(edge)}
        lost = sum(1 for edge in self.edges if gone & set(edge) or edge in cut)
        self.edges = [edge for edge in self.edges if not gone & set(edge) and edge not in cut]
        for node in gone:
            del self.x[node]
        ids = [*range(self.next_id, self.next_id + size), next(iter(self.x))]
        self.next_id += size
        rows = torch.rand(len(ids), len(self.x[ids[-1]]), generator=torch.Generator().manual_seed(self.next_id))
        self.x |= dict(zip(ids, rows))
        names = list(self.x)
        ends = [[names[place] for place in rng.integers(0, len(names), lost)] for _ in range(2)]
        self.edges += list(zip(*ends))
        removed = [[edge[side] for edge in cut] for side in range(2)] if cut else None
        given = {"nodes": rows.numpy(), "ids": ids, "edges": ends if lost else None}
        return given | {"removed_nodes": sorted(gone), "removed_edges": removed}

    def data(self) -> Data:
        row = {node: place for place, node in enumerate(self.x)}
        edges = torch.tensor([[row[a] for a, _ in self.edges], [row[b] for _, b in self.edges]])
        names = np.array([str(node) for node in self.x], object)
        return Data(x=torch.stack(list(self.x.values())), edge_index=edges, num_nodes=len(row), node_name=names)


def follow(updates: int, num_nodes: int = 1500, **settings: Any) -> tuple[list[float], list[float], float]:
    """Resident memory in MiB, largest differences, and seconds per update."""
    import gpnn

    data = gpnn.load_dataset("planted", num_nodes=num_nodes, degree=2.0, num_features=16, num_classes=4)
    data.x = data.x.to_dense() if data.x.layout != torch.strided else data.x
    data.node_name = np.array([str(node) for node in range(num_nodes)], object)
    arguments = {"cell": "linear", "rounds": 1, "epochs": 2, "partition": "flood_fill", "device": "cpu", **settings}
    classifier = gpnn.GPNNClassifier(**arguments).fit(data)
    plain, memory, differences = Plain(data), [], []
    classifier.update()
    began = time.perf_counter()
    for number in range(1, updates + 1):
        classifier.update(**plain.change())
        if number % READ == 0:
            gc.collect()
            memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
        if number % min(COMPARED, updates) == 0:
            differences.append(difference(classifier, plain))
    return memory, differences, (time.perf_counter() - began) / updates


def difference(classifier: Any, plain: Plain) -> float:
    """The largest between the predictions that were kept up to date and those of the whole graph."""
    shown = classifier.predict_frame()
    place = {str(name): row for row, name in enumerate(shown["node"].to_pylist())}
    order = [place[str(node)] for node in plain.x]
    found = np.stack([shown[f"p_{each}"].to_numpy() for each in classifier.classes_], 1)[order]
    return float(abs(found - classifier.predict_proba(plain.data())).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    memory, differences, seconds = follow(options.updates)
    settled = memory[SETTLED // READ - 1]
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].partition("\nExits")[0].strip()
    shown = [number for number in (100, 1000, 2000, 5000, 10_000) if number <= options.updates]
    lines = [
        f"| {' | '.join(f'update {number:,}' for number in shown)} | growth | largest difference | ms per update |"
    ]
    lines.append("|---:" * (len(shown) + 3) + "|")
    cells = " | ".join(f"{memory[number // READ - 1]:.1f}" for number in shown)
    lines.append(f"| {cells} | {memory[-1] - settled:+.2f} | {max(differences):.0e} | {1000 * seconds:.1f} |")
    head = f"# Ten thousand updates in flat memory\n\n    python benchmarks/soak_update.py --out FILE\n\n{about}\n\n"
    text = f"{head}Machine: {platform.machine()}, torch {torch.__version__}. Resident memory in MiB.\n\n" + "\n".join(
        lines
    )
    print(text)
    if options.out is not None:
        from gpnn.storage.atomic import write_text

        write_text(options.out, text + "\n")
    sys.exit(memory[-1] - settled > MOST_GROWTH or max(differences) > MOST_DIFFERENCE)


if __name__ == "__main__":
    main()
