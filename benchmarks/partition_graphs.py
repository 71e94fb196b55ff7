"""The graphs of the partition benchmark, as symmetric edge lists without loops and repeats."""

import os
from pathlib import Path

import numpy as np

CHUNK = 1 << 22  # edges drawn at one time


def make(name: str, folder: Path) -> Path:
    """Write `src.npy` and `dst.npy` of a graph under `folder`, once; the folder that holds them.

    Args:
        name: `grid:SIDE`, `planted:NODES:DEGREE`, `rmat:SCALE:EDGE_FACTOR`, `mesh:NAME` (`meshes/NAME.graph` of
            the data folder GPNN_DATA, METIS's text) or `dataset:NAME` (as it is, repeats and all).
        folder: where the graphs are kept.
    """
    kind, *numbers = name.split(":")
    home = folder / name.replace(":", "_")
    if not (home / "num_nodes.txt").exists():
        home.mkdir(parents=True, exist_ok=True)
        if kind == "dataset":
            _write_dataset(numbers[0], home)
            return home
        first, second, num_nodes = {"grid": grid, "planted": planted, "rmat": rmat, "mesh": mesh}[kind](*numbers)
        _write(first, second, num_nodes, home)
    return home


def grid(side: str) -> tuple[np.ndarray, np.ndarray, int]:
    """A square grid: every node is joined to the next in its row and in its column."""
    node = np.arange(int(side) ** 2).reshape(int(side), int(side))
    first = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    return first, np.concatenate([node[:, 1:].ravel(), node[1:].ravel()]), node.size


def planted(num_nodes: str, degree: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Communities of 200 to 5,000 nodes and degrees from 3 to 100, both by power laws; 10 % of the edges leave.

    Both ends of an edge are drawn in proportion to the nodes' intended degrees, the second within the first's
    community for nine edges in ten. Ids are shuffled.
    """
    rng = np.random.default_rng(0)
    size = int(num_nodes)
    community = np.minimum(np.cumsum(_power_law(rng, size // 100, 200, 5000, 1.5).astype(np.int64)), size)
    community = community[: np.searchsorted(community, size) + 1]  # where each community ends
    weight = np.concatenate([[0.0], np.cumsum(_power_law(rng, size, 3, 100, 2.5))])
    name = rng.permutation(size).astype(np.int32)
    parts = []
    for start in range(0, size * int(degree) // 2, CHUNK):
        count = min(CHUNK, size * int(degree) // 2 - start)
        first = np.searchsorted(weight, rng.random(count) * weight[-1], side="right") - 1
        home = np.searchsorted(community, first, side="right")
        low = weight[np.concatenate([[0], community])[home]]
        inside = low + rng.random(count) * (weight[community[home]] - low)
        aim = np.where(rng.random(count) < 0.1, rng.random(count) * weight[-1], inside)
        second = np.searchsorted(weight, aim, side="right") - 1
        parts.append((name[first], name[second]))
    return np.concatenate([u for u, _ in parts]), np.concatenate([v for _, v in parts]), size


def rmat(scale: str, edge_factor: str) -> tuple[np.ndarray, np.ndarray, int]:
    """The recursive random graph of Graph500 (0.57, 0.19, 0.19, 0.05), ids shuffled."""
    rng = np.random.default_rng(0)
    num_nodes, parts = 1 << int(scale), []
    name = rng.permutation(num_nodes).astype(np.int32)
    for start in range(0, round(num_nodes * float(edge_factor)), CHUNK):
        count = min(CHUNK, round(num_nodes * float(edge_factor)) - start)
        first, second = np.zeros(count, np.int32), np.zeros(count, np.int32)
        for _ in range(int(scale)):
            draw = rng.random(count, np.float32)
            lower = draw >= 0.76
            first, second = 2 * first + lower, 2 * second + (((draw >= 0.57) & ~lower) | (draw >= 0.95))
        parts.append((name[first], name[second]))
    return np.concatenate([u for u, _ in parts]), np.concatenate([v for _, v in parts]), num_nodes


def mesh(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """A graph in METIS's text: `n m`, then a line of neighbours from 1 for each node."""
    lines = (Path(os.environ["GPNN_DATA"]) / "meshes" / f"{name}.graph").read_text().splitlines()
    num_nodes = int(lines[0].split()[0])
    rows = [np.array(line.split(), np.int64) - 1 for line in lines[1 : num_nodes + 1]]
    return np.repeat(np.arange(num_nodes), [len(row) for row in rows]), np.concatenate(rows), num_nodes


def _write_dataset(name: str, home: Path) -> None:
    import gpnn

    data = gpnn.load_dataset(name)
    for end, ids in zip(("src", "dst"), data.edge_index.numpy()):
        np.save(home / f"{end}.npy", ids)
    (home / "num_nodes.txt").write_text(str(data.num_nodes))


def _power_law(rng: np.random.Generator, count: int, low: float, high: float, exponent: float) -> np.ndarray:
    bottom, top = low ** (1 - exponent), high ** (1 - exponent)
    return ((top - bottom) * rng.random(count) + bottom) ** (1 / (1 - exponent))


def _write(first: np.ndarray, second: np.ndarray, num_nodes: int, home: Path) -> None:
    """Write each distinct pair in both directions."""
    key = np.minimum(first, second).astype(np.int64) * num_nodes + np.maximum(first, second)
    del first, second
    key.sort()
    key = key[np.concatenate([[True], key[1:] != key[:-1]])]
    low, high = key // num_nodes, key % num_nodes
    del key
    kept = low != high
    low, high = low[kept], high[kept]
    for name, ends in (("src", (low, high)), ("dst", (high, low))):
        np.save(home / f"{name}.npy", np.concatenate(ends))
    (home / "num_nodes.txt").write_text(str(num_nodes))
