"""What the partition benchmark measures: our methods, and others' on the same graph. Each gives labels `[N]`."""

import heapq
import time

import numpy as np

import gpnn

VARIANTS = {"": {}, "spread": {"leftover": "spread"}, "edges": {"balance": "edges"}, "cycles": {"cycles": 2}}


def divide(method: str, graph: gpnn.Graph, k: int, seed: int) -> tuple[np.ndarray, dict[str, float]]:
    """Labels, and times that only this method has."""
    if method in PEERS:
        return PEERS[method](graph, k, seed)
    name, _, variant = method.partition(":")
    options = VARIANTS[variant]
    if name == "metis":
        return _metis(graph, k, seed, options)
    return gpnn.partition_graph(graph, k, name, seed, **options).labels.numpy(), {}


def _metis(graph: gpnn.Graph, k: int, seed: int, options: dict) -> tuple[np.ndarray, dict[str, float]]:
    """Our call, and how long METIS itself took within it."""
    import pymetis

    inner, original = [], pymetis.part_graph

    def timed(*arguments, **keywords):
        start = time.process_time()
        result = original(*arguments, **keywords)
        inner.append(time.process_time() - start)
        return result

    pymetis.part_graph = timed
    try:
        labels = gpnn.partition_graph(graph, k, "metis", seed, **options).labels.numpy()
    finally:
        pymetis.part_graph = original
    return labels, {"inner_seconds": inner[0]}


def _python(graph: gpnn.Graph, k: int, seed: int) -> tuple[np.ndarray, dict[str, float]]:
    """Algorithm 2 in plain Python: the tests' oracle, fed with the same seeds and draws."""
    from gpnn.partition.flood_fill import draw_seeds
    from gpnn.partition.kernels import stream
    from tests.oracle.flood_fill import children, grow, split_mix

    lists = children(graph)
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
    seeds = draw_seeds(ptr, k, np.random.default_rng(seed), None).tolist()
    start = time.process_time()
    label = grow(lists, seeds, split_mix(int(stream(seed)[0])))
    seconds = time.process_time() - start
    size = np.bincount(list(label.values()), minlength=k)
    smallest = int(size.argmin())
    return np.array([label.get(node, smallest) for node in range(graph.num_nodes)]), {"inner_seconds": seconds}


def _sklearn(graph: gpnn.Graph, k: int, seed: int) -> tuple[np.ndarray, dict[str, float]]:
    from sklearn.cluster import SpectralClustering

    return SpectralClustering(k, affinity="precomputed", random_state=seed).fit_predict(graph.to_scipy()), {}


def _networkit(graph: gpnn.Graph, k: int, seed: int) -> tuple[np.ndarray, dict[str, float]]:
    """Parallel label propagation of networkit, communities packed."""
    import networkit

    networkit.setSeed(seed, False)
    networkit.setNumberOfThreads(1)
    once = (graph.src < graph.dst).numpy()
    ends = graph.src.numpy()[once], graph.dst.numpy()[once]
    theirs = networkit.GraphFromCoo((np.ones(len(ends[0])), ends), n=graph.num_nodes, weighted=False, directed=False)
    start = time.process_time()
    found = networkit.community.PLP(theirs).run().getPartition().getVector()
    seconds = time.process_time() - start
    return _pack(np.array(found), k), {"inner_seconds": seconds}


def _igraph(graph: gpnn.Graph, k: int, seed: int) -> tuple[np.ndarray, dict[str, float]]:
    """Leiden's method of igraph on modularity, communities packed (igraph is GPL: here only)."""
    import random

    import igraph

    random.seed(seed)
    once = (graph.src < graph.dst).numpy()
    edges = np.column_stack([graph.src.numpy()[once], graph.dst.numpy()[once]])
    theirs = igraph.Graph(n=graph.num_nodes, edges=edges)
    start = time.process_time()
    found = theirs.community_leiden(objective_function="modularity").membership
    seconds = time.process_time() - start
    return _pack(np.array(found), k), {"inner_seconds": seconds}


def _pack(community: np.ndarray, k: int) -> np.ndarray:
    """Communities into k parts, largest first into the smallest."""
    _, community = np.unique(community, return_inverse=True)
    size = np.bincount(community)
    heap, part_of = [(0, part) for part in range(k)], np.zeros(len(size), np.int64)
    for one in np.argsort(-size, kind="stable"):
        weight, part = heapq.heappop(heap)
        part_of[one] = part
        heapq.heappush(heap, (weight + int(size[one]), part))
    return part_of[community]


PEERS = {"python": _python, "sklearn": _sklearn, "networkit": _networkit, "igraph": _igraph}
