"""KINDS: small generated graphs, as tables of nodes and edges, of kinds that the experiment `kinds` does not have."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Draw = np.random.Generator
Pairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Tables:
    """What a newcomer has: a column per name, of nodes and of edges, and perhaps a matrix of several labels.

    Attributes:
        nodes: the columns of the nodes; `label` is what is predicted, `split` is drawn where it is missing.
        source: of each edge, a row of the nodes.
        target: of each edge.
        edges: further columns of the edges, `type` and `weight`.
        labels: zeros and ones `[N, L]`, instead of `label`.
        train: the share of the nodes that train; a fifth validates, the rest test.
    """

    nodes: Mapping[str, Sequence[Any]]
    source: np.ndarray
    target: np.ndarray
    edges: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    labels: np.ndarray | None = None
    train: float = 0.4

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(next(iter(self.nodes.values())))


def write_tables(tables: Tables, folder: Path, seed: int) -> None:
    """Write `nodes.csv`, `edges.csv` and perhaps `labels.csv`; `folder` must not exist."""
    folder.mkdir(parents=True)
    names = [f"n{node}" for node in range(tables.num_nodes)]
    nodes: dict[str, Sequence[Any]] = {"id": names, **tables.nodes}
    if "split" not in nodes:
        nodes["split"] = _split(tables, np.random.default_rng([seed, 1]))
    _write(folder / "nodes.csv", nodes)
    ends = {"source": [names[node] for node in tables.source], "target": [names[node] for node in tables.target]}
    _write(folder / "edges.csv", {**ends, **tables.edges})
    if tables.labels is not None:
        columns = {f"label{number}": column for number, column in enumerate(tables.labels.T)}
        _write(folder / "labels.csv", {"id": names, **columns})


def _split(tables: Tables, draw: Draw) -> list[str]:
    place = draw.permutation(tables.num_nodes) / tables.num_nodes
    parts = np.select([place < tables.train, place < tables.train + 0.2], ["train", "val"], "test").tolist()
    return [part if label != "" else "" for part, label in zip(parts, tables.nodes.get("label", parts))]


def _write(file: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _columns(values: np.ndarray) -> dict[str, Sequence[Any]]:
    return {f"c{number}": np.round(column, 4).tolist() for number, column in enumerate(values.T)}


def _hints(y: np.ndarray, width: int, signal: float, draw: Draw) -> np.ndarray:
    """Columns whose mean depends on the class."""
    return draw.normal(size=(len(y), width)) + signal * draw.normal(size=(y.max() + 1, width))[y]


def _both(pairs: Pairs) -> Pairs:
    src, dst = pairs
    return np.concatenate([src, dst]), np.concatenate([dst, src])


def _alike(y: np.ndarray, num_edges: int, share: float, draw: Draw) -> Pairs:
    """Edges of which a share ends in the class of its source, the others anywhere."""
    order = np.argsort(y, kind="stable")
    begin = np.searchsorted(y[order], np.arange(y.max() + 2))
    src, anywhere = draw.integers(len(y), size=(2, num_edges))
    inside = order[begin[y[src]] + (draw.random(num_edges) * np.diff(begin)[y[src]]).astype(int)]
    return src, np.where(draw.random(num_edges) < share, inside, anywhere)


def _popular(num_nodes: int, per_node: int, draw: Draw) -> Pairs:
    """Preferential attachment: each node joins earlier ones, those of high degree more often."""
    src = np.repeat(np.arange(1, num_nodes), per_node)
    dst, ends = np.zeros(len(src), int), [0]
    for edge, node in enumerate(src.tolist()):
        chosen = ends[draw.integers(len(ends))]
        chosen = chosen if chosen < node else int(draw.integers(node))
        dst[edge] = chosen
        ends += [node, chosen]
    return src, dst


def _neighbour_sum(values: np.ndarray, pairs: Pairs) -> np.ndarray:
    src, dst = pairs
    return np.bincount(dst, weights=values[src], minlength=len(values))


def _thirds(values: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)


def chains(draw: Draw) -> Tables:
    """Directed chains of twenty: the class is the sign of a column three nodes earlier."""
    n = 1500
    x, src = draw.normal(size=(n, 4)), np.arange(n - 1)
    src = src[src % 20 != 19]
    y = np.where(np.arange(n) % 20 >= 3, np.roll(x[:, 0], 3) > 0, x[:, 1] > 0).astype(int)
    return Tables({**_columns(x), "label": y}, src, src + 1)


def ancestors(draw: Draw) -> Tables:
    """A citation-like DAG: a topic is handed down along a typed path, columns tell it in the oldest tenth alone."""
    n, roots = 2000, 200
    y = draw.integers(4, size=n)
    parent = np.concatenate([np.zeros(roots, int), (draw.random(n - roots) * np.arange(roots, n)).astype(int)])
    for node in range(roots, n):
        y[node] = y[parent[node]] if draw.random() < 0.97 else y[node]
    x = draw.normal(size=(n, 6))
    x[np.arange(roots), y[:roots]] += 3.0
    child, other = np.arange(roots, n), (draw.random(n - roots) * np.arange(roots, n)).astype(int)
    kinds = ["builds on"] * len(child) + ["mentions"] * len(child)
    old = (np.arange(n) < roots).astype(int)
    nodes = {**_columns(x), "old": old, "label": y}
    return Tables(nodes, np.tile(child, 2), np.concatenate([parent[roots:], other]), {"type": kinds}, train=0.2)


def hundred_classes(draw: Draw) -> Tables:
    """A hundred classes with three labels each."""
    n = 3000
    y = draw.permutation(np.arange(n) % 100)
    split = np.full(n, "test", object)
    for number in range(100):
        mine = np.flatnonzero(y == number)
        split[mine[:3]], split[mine[3:8]] = "train", "val"
    nodes = {**_columns(_hints(y, 24, 0.6, draw)), "label": [f"k{each}" for each in y], "split": split}
    return Tables(nodes, *_both(_alike(y, 4 * n, 0.6, draw)))


def bipartite(draw: Draw) -> Tables:
    """Users and items; the users of a class buy items of two groups; users alone have labels."""
    users, items = 1200, 600
    y, group = draw.integers(5, size=users), draw.integers(5, size=items)
    src = draw.integers(users, size=8 * users)
    wanted = (y[src] + draw.integers(2, size=len(src))) % 5
    order = np.argsort(group, kind="stable")
    begin = np.searchsorted(group[order], np.arange(6))
    inside = order[begin[wanted] + (draw.random(len(src)) * np.diff(begin)[wanted]).astype(int)]
    dst = users + np.where(draw.random(len(src)) < 0.5, inside, draw.integers(items, size=len(src)))
    x = draw.normal(size=(users + items, 5))
    x[users + np.arange(items), group] += 0.7
    kind = ["user"] * users + ["item"] * items
    label = [f"k{each}" for each in y] + [""] * items
    return Tables({**_columns(x), "kind": kind, "label": label}, src, dst)


def noise_type(draw: Draw) -> Tables:
    """Edges of two types: one joins alike nodes, the other, four times as frequent, anybody."""
    n = 1500
    y = draw.integers(5, size=n)
    good, noise = _both(_alike(y, 3 * n, 0.8, draw)), _both(_alike(y, 12 * n, 0.0, draw))
    kinds = ["knows"] * len(good[0]) + ["near"] * len(noise[0])
    nodes = {**_columns(_hints(y, 8, 0.4, draw)), "label": y}
    return Tables(nodes, *np.concatenate([good, noise], 1), {"type": kinds})


def skewed_weights(draw: Draw) -> Tables:
    """Weights over orders of magnitude: the heavy edges join alike nodes."""
    n = 1500
    y = draw.integers(4, size=n)
    src, dst = draw.integers(n, size=(2, 8 * n))
    weight = draw.lognormal(np.where(y[src] == y[dst], 3.0, 0.0), 1.5)
    nodes = {**_columns(_hints(y, 6, 0.3, draw)), "label": y}
    return Tables(nodes, *_both((src, dst)), {"weight": np.tile(np.round(weight, 4), 2)})


def signed_weights(draw: Draw) -> Tables:
    """Weights of +1 join alike nodes, −1 others, with a tenth wrong."""
    n = 1500
    y = draw.integers(3, size=n)
    src, dst = draw.integers(n, size=(2, 4 * n))
    right = draw.random(len(src)) < 0.9
    weight = np.where((y[src] == y[dst]) == right, 1, -1)
    nodes = {**_columns(_hints(y, 6, 0.3, draw)), "label": y}
    return Tables(nodes, *_both((src, dst)), {"weight": np.tile(weight, 2)})


def hubs(draw: Draw) -> Tables:
    """Heavy-tailed degrees: a node's class is that of its neighbour of the highest degree, whose columns tell it."""
    n = 2000
    src, dst = _both(_popular(n, 3, draw))
    degree, own = np.bincount(dst, minlength=n), draw.integers(4, size=n)
    best = np.full(n, -1)
    for one, other in zip(src.tolist(), dst.tolist()):
        if best[other] < 0 or degree[one] > degree[best[other]]:
            best[other] = one
    x = draw.normal(size=(n, 8))
    x[np.arange(n), own] += 2.0
    return Tables({**_columns(x), "label": own[best]}, src, dst)


def prices(draw: Draw) -> Tables:
    """Prices over orders of magnitude, which follow a node's columns and the neighbourhood."""
    n = 1500
    place = draw.random((n, 2))
    near = ((place[:, None] - place[None]) ** 2).sum(2).argsort(1)[:, 1:7]
    size, age = draw.normal(size=(2, n))
    area = np.sin(7 * place[:, 0]) + np.cos(6 * place[:, 1])
    price = np.exp(11 + 0.8 * size - 0.3 * age + area + 0.3 * draw.normal(size=n))
    nodes = {"size": np.round(np.exp(size), 3), "age": np.round(age, 3), "label": np.round(price, 2)}
    return Tables(nodes, *_both((np.repeat(np.arange(n), 6), near.ravel())))


def neighbour_sum(draw: Draw) -> Tables:
    """A number: the sum, not the mean, of a column over the neighbours."""
    n = 1500
    pairs, x = _both(_popular(n, 3, draw)), draw.normal(size=(n, 5))
    y = _neighbour_sum(x[:, 0], pairs) + x[:, 1] + 0.3 * draw.normal(size=n)
    return Tables({**_columns(x), "label": np.round(y, 4)}, *pairs)


def two_step_sum(draw: Draw) -> Tables:
    """A number: the sum of a column over the neighbours of the neighbours."""
    n = 1500
    pairs, x = _both(draw.integers(n, size=(2, 2 * n))), draw.normal(size=(n, 5))
    y = _neighbour_sum(_neighbour_sum(x[:, 0], pairs), pairs) + x[:, 1] + 0.3 * draw.normal(size=n)
    return Tables({**_columns(x), "label": np.round(y, 4)}, *pairs)


def events(draw: Draw) -> Tables:
    """A count of events, mostly zero, whose rate follows the number of risky neighbours."""
    n = 2000
    pairs, risky = _both(_popular(n, 2, draw)), draw.random(n) < 0.3
    rate = np.exp(-1.5 + 0.5 * np.minimum(_neighbour_sum(risky.astype(float), pairs), 6))
    nodes = {"risky": np.where(risky, "yes", "no"), "noise": np.round(draw.normal(size=n), 3)}
    y = draw.poisson(rate) + np.round(0.01 * draw.random(n), 4)
    return Tables({**nodes, "label": y}, *pairs)


def threshold(draw: Draw) -> Tables:
    """A class by a count: at least three neighbours have a trait."""
    n = 1500
    pairs, trait = _both(draw.integers(n, size=(2, 4 * n))), draw.random(n) < 0.35
    y = (_neighbour_sum(trait.astype(float), pairs) >= 3) ^ (draw.random(n) < 0.03)
    nodes = {"trait": np.where(trait, "yes", "no"), **_columns(draw.normal(size=(n, 4))), "label": y.astype(int)}
    return Tables(nodes, *pairs)


def rare_labels(draw: Draw) -> Tables:
    """Thirty labels of which a node has some, most of them rare."""
    n = 2000
    shares = 0.35 / np.arange(1, 31) ** 0.9
    y = draw.integers(12, size=n)
    affinity = draw.random((12, 30)) < 0.25
    labels = draw.random((n, 30)) < np.where(affinity[y], np.minimum(0.9, 4 * shares), 0.1 * shares)
    nodes = _columns(_hints(y, 16, 0.4, draw))
    return Tables(nodes, *_both(_alike(y, 4 * n, 0.6, draw)), labels=labels.astype(int))


def fraud(draw: Draw) -> Tables:
    """One account in two hundred is a fraud; frauds share devices, and their columns differ a little."""
    n, rings = 6000, 15
    y = np.zeros(n, int)
    bad = draw.permutation(n)[: n // 100]
    y[bad[: n // 200]] = 1
    src, dst = draw.integers(n, size=(2, 2 * n))
    ring = np.array_split(bad[: n // 200], rings)
    own = [(one, other) for each in ring for one in each for other in each if one != other]
    src, dst = np.concatenate([src, [one for one, _ in own]]), np.concatenate([dst, [other for _, other in own]])
    x = draw.normal(size=(n, 8))
    x[bad, 0] += 2.0
    return Tables({**_columns(x), "label": np.where(y, "fraud", "fine")}, *_both((src, dst)), train=0.5)


WORDS = [
    "red",
    "green",
    "blue",
    "old",
    "new",
    "fast",
    "slow",
    "warm",
    "cold",
    "loud",
    "quiet",
    "heavy",
    "light",
    "open",
    "closed",
    "round",
    "flat",
    "deep",
    "high",
    "low",
]


def mixed_columns(draw: Draw) -> Tables:
    """Categories, dates, sentences and missing values tell the class, neighbours a little."""
    n = 1500
    y = draw.integers(3, size=n)
    city = np.where(draw.random(n) < 0.4, y * 7 + draw.integers(7, size=n), draw.integers(21, size=n))
    day = np.datetime64("2020-01-01") + (200 * y + draw.integers(700, size=n)).astype("timedelta64[D]")
    words = [" ".join(WORDS[(6 * k * (draw.random() < 0.3) + draw.integers(20)) % 20] for _ in range(9)) for k in y]
    income = np.round(draw.lognormal(8 + 0.5 * (y == 2), 1.0), 2)
    gone = draw.random(n) < 0.2 + 0.3 * (y == 1)
    nodes = {
        "city": [f"city {each}" for each in city],
        "joined": day.astype(str).tolist(),
        "about": words,
        "income": np.where(gone, "", income.astype(str)).tolist(),
        "label": [f"group {each}" for each in y],
    }
    return Tables(nodes, *_both(_alike(y, 2 * n, 0.3, draw)))


def components(draw: Draw) -> Tables:
    """Thousands of components of two to six nodes, whose nodes mostly share a class."""
    size = draw.integers(2, 7, 1000)
    part = np.repeat(np.arange(len(size)), size)
    n, begin = len(part), np.cumsum(size) - size
    y = np.where(draw.random(n) < 0.85, draw.integers(5, size=len(size))[part], draw.integers(5, size=n))
    src = np.tile(np.arange(n), 2)
    dst = begin[part[src]] + (draw.random(len(src)) * size[part[src]]).astype(int)
    keep = src != dst
    return Tables({**_columns(_hints(y, 8, 0.5, draw)), "label": y}, *_both((src[keep], dst[keep])))


def isolated(draw: Draw) -> Tables:
    """More than half of the nodes have no edge; the others' neighbours are alike."""
    n = 1800
    y = draw.integers(4, size=n)
    src, dst = _alike(y, 6 * n, 0.7, draw)
    keep = (src % 9 < 4) & (dst % 9 < 4)
    return Tables({**_columns(_hints(y, 10, 0.6, draw)), "label": y}, *_both((src[keep], dst[keep])))


def newer(draw: Draw) -> Tables:
    """The split is by time: test nodes are newer, cite older ones, and columns drift."""
    n = 2000
    y = draw.integers(5, size=n)
    src, dst = _alike(y, 8 * n, 0.7, draw)
    keep = (src > dst) & (src - dst < 600)
    x = _hints(y, 10, 0.5, draw) + np.linspace(0, 1.5, n)[:, None] * draw.normal(size=10)
    split = np.select([np.arange(n) < 1000, np.arange(n) < 1400], ["train", "val"], "test")
    day = np.datetime64("2015-01-01") + np.arange(n).astype("timedelta64[D]")
    nodes = {**_columns(x), "day": day.astype(str), "label": y, "split": split}
    return Tables(nodes, src[keep], dst[keep])


def repeated_edges(draw: Draw) -> Tables:
    """Edges stand in the table as often as two nodes met, alike ones more often; some nodes meet themselves."""
    n = 1500
    y = draw.integers(4, size=n)
    src, dst = draw.integers(n, size=(2, 6 * n))
    times = np.where(y[src] == y[dst], draw.integers(3, 9, len(src)), 1)
    src, dst, own = np.repeat(src, times), np.repeat(dst, times), draw.integers(n, size=n // 3)
    src, dst = np.concatenate([src, own]), np.concatenate([dst, own])
    return Tables({**_columns(_hints(y, 6, 0.4, draw)), "label": y}, *_both((src, dst)))


def scales(draw: Draw) -> Tables:
    """A column is constant, one is of the order of 1e9, one of 1e-6, one has a few huge values."""
    n = 1500
    y = draw.integers(3, size=n)
    x = _hints(y, 4, 1.0, draw)
    nodes = {
        "constant": [7] * n,
        "money": np.round(3e9 + 1e7 * x[:, 0], 0),
        "tiny": [f"{each:.4e}" for each in 1e-6 * x[:, 1]],
        "tail": np.round(np.exp(3 * x[:, 2]), 4),
        "flag": (x[:, 3] > 0.5).astype(int),
        "label": y,
    }
    return Tables(nodes, *_both(_alike(y, 2 * n, 0.4, draw)))


def triangles(draw: Draw) -> Tables:
    """The class says whether a node is in a triangle; columns tell nothing."""
    n = 1500
    triple = draw.permutation(n)[: n // 2 // 3 * 3].reshape(-1, 3)
    rest = np.setdiff1d(np.arange(n), triple.ravel())
    square = draw.permutation(rest)[: len(rest) // 4 * 4].reshape(-1, 4)
    rings = [(each, np.roll(each, 1, axis=1)) for each in (triple, square)]
    extra = draw.integers(n, size=(2, n // 2))
    src = np.concatenate([*(one.ravel() for one, _ in rings), extra[0]])
    dst = np.concatenate([*(other.ravel() for _, other in rings), extra[1]])
    src, dst = _both((src, dst))
    joined = np.zeros((n, n), bool)
    joined[src, dst] = True
    np.fill_diagonal(joined, val=False)
    closed = ((joined.astype(np.float32) @ joined.astype(np.float32)) * joined).sum(1) > 0
    return Tables({**_columns(draw.normal(size=(n, 3))), "label": closed.astype(int)}, src, dst)


def cores(draw: Draw) -> Tables:
    """Three classes by the core number of a node; columns tell nothing."""
    import networkx

    n = 2000
    weight = draw.pareto(2.5, n) + 0.3
    src, dst = draw.choice(n, size=(2, 4 * n), p=weight / weight.sum())
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((one, other) for one, other in zip(src.tolist(), dst.tolist()) if one != other)
    core = networkx.core_number(graph)
    y = _thirds(np.array([core[node] for node in range(n)]) + 0.01 * draw.random(n))
    return Tables({**_columns(draw.normal(size=(n, 3))), "label": y}, *_both((src, dst)))


def ring_distance(draw: Draw) -> Tables:
    """Rings of 24: the class is how far the marked node of the ring is."""
    n = 1800
    place, ring = np.arange(n) % 24, np.arange(n) // 24
    marked = draw.integers(24, size=n // 24)[ring]
    away = np.minimum((place - marked) % 24, (marked - place) % 24)
    dst = ring * 24 + (place + 1) % 24
    nodes = {"marked": np.where(away == 0, "yes", "no"), **_columns(draw.normal(size=(n, 2)))}
    return Tables({**nodes, "label": np.searchsorted([2, 4, 7], away, side="right")}, *_both((np.arange(n), dst)))


def deep_dense(draw: Draw) -> Tables:
    """Half of the nodes have labels; dense columns are mixed by eight random layers along the edges."""
    n, width = 3000, 64
    x = draw.normal(size=(n, width))
    src, dst = _both(draw.integers(n, size=(2, 2 * n)))
    degree = np.maximum(1, np.bincount(dst, minlength=n))[:, None]
    state = x
    for _ in range(8):
        mean = np.zeros_like(state)
        np.add.at(mean, dst, state[src])
        state = state + np.maximum(0, (mean / degree) @ draw.normal(size=(width, width)) / 5)
        state = (state - state.mean(0)) / state.std(0)
    y = (state @ draw.normal(size=(width, 4))).argmax(1)
    return Tables({**_columns(x), "label": y}, src, dst, train=0.5)


def product(draw: Draw) -> Tables:
    """The class is the sign of a node's column times the neighbours' mean of another."""
    n = 1500
    pairs, x = _both(draw.integers(n, size=(2, 3 * n))), draw.normal(size=(n, 6))
    y = (x[:, 0] * _neighbour_sum(x[:, 1], pairs) > 0) ^ (draw.random(n) < 0.05)
    return Tables({**_columns(x), "label": y.astype(int)}, *pairs)


def many_types(draw: Draw) -> Tables:
    """Twelve types of edges: the class is that of the types, in four groups, that reach a node most often."""
    n = 1500
    src, dst = draw.integers(n, size=(2, 6 * n))
    lean = draw.integers(4, size=n)
    kind = np.where(draw.random(len(src)) < 0.4, lean[dst], draw.integers(4, size=len(src)))
    counts = np.stack([np.bincount(dst[kind == each], minlength=n) for each in range(4)], 1)
    y = (counts + 0.01 * draw.random(counts.shape)).argmax(1)
    names = [f"t{4 * draw.integers(3) + each}" for each in kind]
    return Tables({**_columns(draw.normal(size=(n, 4))), "label": y}, src, dst, {"type": names})


def places(draw: Draw) -> Tables:
    """A number that is smooth over the map, with coordinates as columns and the nearest places as neighbours."""
    n = 1500
    place = draw.random((n, 2))
    near = ((place[:, None] - place[None]) ** 2).sum(2).argsort(1)[:, 1:6]
    y = np.sin(12 * place[:, 0]) * np.cos(9 * place[:, 1]) + 0.25 * draw.normal(size=n)
    nodes = {**_columns(place), "label": np.round(y, 4)}
    return Tables(nodes, *_both((np.repeat(np.arange(n), 5), near.ravel())))


def mines(draw: Draw) -> Tables:
    """A field of Minesweeper: a fifth of the cells are mines, and half of the cells count those around them."""
    size = 100
    mine = draw.random((size, size)) < 0.2
    around = np.pad(mine, 1).astype(int)
    steps = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if (down, right) != (0, 0)]
    count = sum(around[1 + down : 1 + down + size, 1 + right : 1 + right + size] for down, right in steps)
    cell, hidden = np.arange(size * size).reshape(size, size), draw.random((size, size)) < 0.5
    pairs = [(cell[:, 1:], cell[:, :-1]), (cell[1:], cell[:-1]), (cell[1:, 1:], cell[:-1, :-1])]
    pairs.append((cell[1:, :-1], cell[:-1, 1:]))
    src, dst = (np.concatenate([each[end].ravel() for each in pairs]) for end in (0, 1))
    counts = {f"count{each}": ((count == each) & ~hidden).ravel().astype(int) for each in range(6)}
    nodes = {**counts, "hidden": hidden.ravel().astype(int), "label": mine.ravel().astype(int)}
    return Tables(nodes, *_both((src, dst)), train=0.5)


def sentences(draw: Draw) -> Tables:
    """Words in the order of a text, and longer ties: half of the words are of another class than their columns say."""
    n, classes, words, width = 12_000, 12, 60, 100
    following = draw.dirichlet(np.full(classes, 0.25), classes)
    y = np.zeros(n, int)
    for word in range(1, n):
        y[word] = draw.choice(classes, p=following[y[word - 1]])
    told = np.where(draw.random(n) < 0.5, draw.integers(classes, size=n), y)
    x = draw.normal(size=(classes * words, width))[told * words + draw.integers(words, size=n)]
    far = np.arange(n) + draw.geometric(0.3, n) + 1
    near, tied = np.arange(n - 1), np.flatnonzero(far < n)
    src, dst = np.concatenate([near, tied]), np.concatenate([near + 1, far[tied]])
    return Tables({**_columns(x + 0.3 * draw.normal(size=x.shape)), "label": y}, *_both((src, dst)), train=0.5)


def sensors(draw: Draw) -> Tables:
    """Streets: a number with a long tail, spread by a tenth of the crossings; three in ten have no sensor."""
    size = 90
    n, steps = size * size, 12
    cell = np.arange(n).reshape(size, size)
    src = np.concatenate([cell[:, 1:].ravel(), cell[1:].ravel()])
    dst = np.concatenate([cell[:, :-1].ravel(), cell[:-1].ravel()])
    pairs = _both(np.stack([src, dst])[:, draw.random(len(src)) < 0.85])
    degree = np.maximum(1, np.bincount(pairs[1], minlength=n))
    source = draw.exponential(size=n) * (draw.random(n) < 0.1)
    level = source
    for _ in range(steps):
        level = 0.9 * _neighbour_sum(level, pairs) / degree + source
    lanes = draw.integers(1, 5, n)
    read = np.round(10 * source + 0.2 * draw.normal(size=n), 3).astype(str)
    nodes = {"lanes": lanes, "sensor": np.where(draw.random(n) < 0.3, "", read), **_columns(draw.normal(size=(n, 1)))}
    return Tables({**nodes, "label": np.round(100 * level * lanes + 30 * draw.normal(size=n), 2)}, *pairs)


def workers(draw: Draw) -> Tables:
    """Half a million pairs of workers of the same projects: a fifth are banned, for carelessness or strict rules."""
    n, projects, m = 11_800, 400, 520_000
    share = draw.pareto(1.2, projects) + 0.05
    member = draw.choice(projects, size=(n, 2), p=share / share.sum())
    busy = draw.pareto(1.5, n) + 0.2
    order = np.argsort(member[:, 0], kind="stable")
    begin = np.searchsorted(member[order, 0], np.arange(projects + 1))
    src = draw.choice(n, size=m, p=busy / busy.sum())
    project = member[src, (draw.random(m) < 0.3).astype(int)]
    dst = order[begin[project] + (draw.random(m) * np.diff(begin)[project]).astype(int)]
    strict, care = draw.normal(size=projects), draw.normal(size=n)
    risk = strict[member].mean(1) - care + draw.logistic(size=n)
    done = draw.poisson(20 * busy)
    rates = 1 / (1 + np.exp(-(care[:, None] * [1.0, 0.5, -0.7, 0.3] + draw.normal(size=(n, 4)))))
    nodes = {**_columns(rates), "done": done, "school": draw.choice(["basic", "secondary", "higher"], n)}
    return Tables({**nodes, "label": (risk > np.quantile(risk, 0.78)).astype(int)}, *_both((src, dst)), train=0.5)


def ratings(draw: Draw) -> Tables:
    """Products bought together: five classes of a rating that brand, words and chance decide; many dense columns."""
    n, brands, width = 24_000, 2000, 300
    brand = draw.integers(brands, size=n)
    quality, words = draw.normal(size=brands), draw.normal(size=(60, width)) / 3
    topic = draw.dirichlet(np.full(60, 0.1), n)
    score = quality[brand] + topic @ draw.normal(size=60) + 0.8 * draw.normal(size=n)
    y = np.searchsorted(np.quantile(score, [0.25, 0.6, 0.85, 0.95]), score)
    src, dst = _alike(brand, 4 * n, 0.6, draw)
    nodes = _columns(topic @ words + 0.1 * draw.normal(size=(n, width)))
    return Tables({**nodes, "label": y}, *_both((src, dst)), train=0.5)


def askers(draw: Draw) -> Tables:
    """Three in a hundred stay: by how active those are who answered them, and by words of which few tell anything."""
    n, width = 30_000, 120
    active = draw.pareto(1.5, n) + 0.1
    src, dst = draw.choice(n, size=n * 2, p=active / active.sum()), draw.integers(n, size=n * 2)
    x = draw.normal(size=(n, width))
    answered = _neighbour_sum(np.log(active), (src, dst)) / np.maximum(1, np.bincount(dst, minlength=n))
    score = answered + 0.5 * np.log(active) + 0.4 * x[:, 0] * x[:, 1] + 0.5 * x[:, 2] + draw.logistic(size=n)
    y = (score > np.quantile(score, 0.97)).astype(int)
    return Tables({**_columns(x), "label": y}, *_both((src, dst)), train=0.5)


KINDS: dict[str, Callable[[Draw], Tables]] = {
    each.__name__: each
    for each in (
        chains,
        ancestors,
        hundred_classes,
        bipartite,
        noise_type,
        skewed_weights,
        signed_weights,
        hubs,
        prices,
        neighbour_sum,
        two_step_sum,
        events,
        threshold,
        rare_labels,
        fraud,
        mixed_columns,
        components,
        isolated,
        newer,
        repeated_edges,
        scales,
        triangles,
        cores,
        ring_distance,
        deep_dense,
        product,
        many_types,
        places,
        mines,
        sentences,
        sensors,
        workers,
        ratings,
        askers,
    )
}
