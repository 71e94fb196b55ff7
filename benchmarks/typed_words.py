"""A graph as a new user would bring it: typed directed edges, sparse columns and many classes, as a folder of tables.

    python -m benchmarks.typed_words OUT [--nodes 60000] [--seed 0]

60,000 nodes, 300,000 edges of four types, 6,000 columns of which some twenty are set per node, and 42 classes of very
different size. Edges of two types stay in the class of their source more often than not, those of a third lead to the
next class, and the fourth is noise; columns are words, of which each class has its own besides those of all.
`nodes.csv`, `edges.csv` and `features.npz` are the same for the same seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import sparse

CLASSES, WORDS, OWN_WORDS, PER_NODE = 42, 6000, 60, 20
TYPES = {"cites": (0.35, 0, 0.6), "same_author": (0.25, 0, 0.75), "answers": (0.2, 1, 0.7), "near": (0.2, 0, 0.0)}
LABELLED = 0.3


def make_tables(out: Path, num_nodes: int, seed: int) -> None:
    """Write the folder of tables.

    Args:
        out: where; it must not exist.
        num_nodes: number of nodes; edges are five times as many.
        seed: of everything.
    """
    draw = np.random.default_rng(seed)
    shares = 1 / np.arange(2, CLASSES + 2) ** 0.7
    label = draw.choice(CLASSES, num_nodes, p=shares / shares.sum())
    out.mkdir(parents=True)
    known = draw.random(num_nodes) < LABELLED
    rows = (f"n{node},{f'class {label[node]:02d}' if known[node] else ''}" for node in range(num_nodes))
    (out / "nodes.csv").write_text("id,label\n" + "\n".join(rows) + "\n")
    src, dst, kind = draw_edges(label, 5 * num_nodes, draw)
    lines = (f"n{a},n{b},{name}" for a, b, name in zip(src.tolist(), dst.tolist(), kind))
    (out / "edges.csv").write_text("source,target,type\n" + "\n".join(lines) + "\n")
    sparse.save_npz(out / "features.npz", draw_words(label, draw))


def draw_edges(
    label: np.ndarray, num_edges: int, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Sources, targets and the names of types; targets of a type lie in a class that follows from the source's."""
    order = np.argsort(label, kind="stable")
    begin = np.searchsorted(label[order], np.arange(CLASSES + 1))
    sources, targets, kinds = [], [], []
    for name, (share, step, kept) in TYPES.items():
        count = round(share * num_edges)
        src, dst = draw.integers(len(label), size=(2, count))
        wanted = (label[src] + step) % CLASSES
        inside = order[begin[wanted] + (draw.random(count) * np.diff(begin)[wanted]).astype(int)]
        sources.append(src)
        targets.append(np.where(draw.random(count) < kept, inside, dst))
        kinds += [name] * count
    return np.concatenate(sources), np.concatenate(targets), kinds


def draw_words(label: np.ndarray, draw: np.random.Generator) -> sparse.csr_matrix:
    """Which words each node has: a tenth of its own class's, the others of all, some far more frequent."""
    num_nodes = len(label)
    rows = np.repeat(np.arange(num_nodes), PER_NODE)
    common = np.minimum((draw.pareto(0.8, rows.size) * 40).astype(np.int64), WORDS - 1)
    own = draw.permutation(WORDS)[: CLASSES * OWN_WORDS].reshape(CLASSES, OWN_WORDS)
    special = own[label[rows], draw.integers(OWN_WORDS, size=rows.size)]
    columns = np.where(draw.random(rows.size) < 0.1, special, common)
    words = sparse.csr_matrix((np.ones(rows.size, np.float32), (rows, columns)), shape=(num_nodes, WORDS))
    words.data[:] = 1.0
    return words


def main() -> None:
    """Read the arguments and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--nodes", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    make_tables(given.out, given.nodes, given.seed)


if __name__ == "__main__":
    main()
