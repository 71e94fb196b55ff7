"""How much of what a node aggregates in several steps crosses the cut, on the graphs of held_cut.toml.

    python benchmarks/crossing.py --out benchmarks/results/crossing.md

Under the held cut, a message over the cut is the sender's state at the start of the round. What a node holds after s
steps of one round is made of walks of s hops that end in it; a walk that comes over the cut before its last hop brings
the state at the start instead of what the sender has aggregated since. "Cut short" is the weight of these walks over
the test nodes: each step is the mean over a node's neighbours and itself. "No neighbour inside" are the test nodes all
of whose edges are cut. Partitions are those of seed 0.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

HEADER = ("graph", "partition", "K", "nodes per subgraph", "largest neighbourhood", "edges cut, %")
HEADER += ("cut short in 2 steps, %", "in 4", "in 8", "no neighbour inside, %")


def facts(graph, test: np.ndarray, labels: np.ndarray) -> list[float]:
    """Shares of edges cut, of walks cut short in 2, 4 and 8 steps, and of test nodes that have cut edges alone."""
    src, dst, count = graph.src.numpy(), graph.dst.numpy(), graph.num_nodes
    inside, own = labels[src] == labels[dst], np.arange(count)
    degree = np.bincount(dst, minlength=count)
    rows, columns = np.concatenate([dst[inside], own]), np.concatenate([src[inside], own])
    step = csr_array((1 / (1 + degree[rows]), (rows, columns)), (count, count))
    stays, short = np.ones(count), {}
    for hops in range(1, 8):
        stays = step @ stays
        short[hops + 1] = 1 - stays[test].mean()
    alone = np.bincount(dst[inside], minlength=count)[test] == 0
    return [1 - inside.mean(), short[2], short[4], short[8], (alone & (degree[test] > 0)).mean()]


def main() -> None:
    import gpnn
    from gpnn.data.features import transform_data
    from gpnn.graph import as_graph

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    cases = [(name, {}, "refined", 10) for name in ("cora", "citeseer", "pubmed")]
    methods = ("refined", "flood_fill", "spectral")
    cases += [("nell", {"rate": 0.001}, method, k) for method in methods for k in (5, 10, 20, 50)]
    for name, chosen, method, k in cases:
        data = transform_data(gpnn.load_dataset(name, **chosen), undirected=True)
        graph, test = as_graph(data), data.test_mask.nonzero()[:, 0].numpy()
        labels = gpnn.partition_graph(data, k, method=method, seed=0).labels.numpy()
        words = [name, method, str(k), f"{len(labels) // k:,}", f"{np.bincount(graph.dst.numpy()).max():,}"]
        words += [f"{100 * share:.1f}" for share in facts(graph, test, labels)]
        lines.append("| " + " | ".join(words) + " |")
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text(f"# {__doc__}\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
