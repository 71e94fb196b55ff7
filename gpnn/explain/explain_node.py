"""explain_node: what carried a prediction, each by what its deletion changes; and a picture of it as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
from torch import Tensor

from gpnn.check import check_count
from gpnn.explain.explained import Explained, Links, row_of
from gpnn.graph import Graph
from gpnn.incremental.variants import Deletions
from gpnn.run.known_nodes import find_nodes, node_ids
from gpnn.schedule import draw as svg
from gpnn.text import percent, table_html, value_text
from gpnn.train.task import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data


OWN = 2  # of the node's own edges, and of its direct neighbours, that are deleted for each one listed
SPARE, UNGUIDED = (
    2,
    10,
)  # further away: as many more than are listed, and where no gradient proposes them, times as many
SHOWN = 0.0005  # effect that is shown, which is 0.1 %; of numbers, of the largest effect
MOST_COLUMNS = 100  # of a node that are deleted, those of the largest values
JOINT, POOL, OWN_POOL = 3, 4, 2  # edges that are chosen together, from the best alone and further ones of the node
LEAST = 1e-6  # probability by which a set must be better than one of fewer edges

Thing = tuple[int, int, int]  # node, other node, column, as of gpnn.incremental.variants.Deletions


@dataclass(frozen=True)
class Explanation:
    """Why a node got its class, or its number: what carried it, the most important first.

    An effect is the probability of the predicted class less that without the thing, all else being equal; of a number,
    by how much it moves, up or down. What moves nothing or speaks against the class is not listed. Effects do not add
    up: a node that receives the mean of three neighbours who agree misses none of them alone. Therefore the first
    edges, and the first columns, three at most, are a set: the best one alone and those that cost the most together
    with it. The others follow by their effects.

    Attributes:
        node: the user's id of it.
        prediction: its most likely class, or label, or its number.
        probability: of that class; None of a number.
        edges: source, target and effect alone. Edges that join the same two nodes, either way, count as one.
        together: the effect of deleting the edges of the set at once.
        num_together: how many of the first edges are the set.
        neighbours: nodes near or far, and the effect of deleting all edges of each.
        columns: names, or numbers, of the node's own features, and the effect of setting each to 0.
    """

    node: Any
    prediction: Any
    probability: float | None
    edges: tuple[tuple[Any, Any, float], ...]
    neighbours: tuple[tuple[Any, float], ...]
    columns: tuple[tuple[Any, float], ...]
    together: float = 0.0
    num_together: int = 0

    @property
    def title(self) -> str:
        """Node and prediction, with its probability."""
        if self.probability is None:
            return f"{self.node}: {value_text(self.prediction)}"
        return f"{self.node}: {self.prediction}, probability {percent(self.probability)}"

    @property
    def effect(self) -> str:
        """What an effect is, in words."""
        return "the number moves by" if self.probability is None else "probability lost"

    @property
    def least(self) -> float:
        """The smallest effect that is shown."""
        return SHOWN if self.probability is not None else SHOWN * max((row[2] for row in self.rows()), default=0.0)

    def words(self, effect: float) -> str:
        """An effect as text."""
        return value_text(effect) if self.probability is None else percent(effect)

    def shown(self) -> list[tuple[str, str, str]]:
        """What was deleted, its name, and the effect in words; outside of the set those of some size."""
        first = self.num_together + 1 if self.num_together > 1 else 0
        listed = [row for place, row in enumerate(self.rows()) if place < first or row[2] >= self.least]
        return [(kind, name, self.words(effect)) for kind, name, effect in listed]

    def rows(self) -> list[tuple[str, str, float]]:
        """What was deleted, its name, and the effect."""
        edges = [(f"{source} → {target}", effect) for source, target, effect in self.edges]
        rows = [("edge", *each) for each in edges]
        if self.num_together > 1:
            rows.insert(self.num_together, ("edges", f"the {self.num_together} above together", self.together))
        rows += [("neighbour", str(name), effect) for name, effect in self.neighbours]
        return [*rows, *(("column", str(name), effect) for name, effect in self.columns)]

    def _repr_html_(self) -> str:
        return table_html(["without", "", self.effect], self.shown(), self.title) + draw_explanation(self)


def explain_node(
    members: Sequence[Explained],
    node: int,
    *,
    task: Task,
    classes: Sequence[Any] | None = None,
    num: int = 10,
) -> Explanation:
    """What carried the prediction of a node, by deleting it from the graph and predicting again under its schedule.

    The node's own edges are deleted one by one; of those further away a gradient proposes which are worth a deletion.
    Where the model has no such gradient, the nearest are. Where the model and its schedule allow it, only what a
    deletion changes on the way to the node is computed, for all deletions together (:mod:`gpnn.incremental.variants`).

    Args:
        members: the model, or those of a blend, the first of which proposes what to delete; what they compute of the
            graph as it is, they keep for the next node.
        node: the row of the node.
        task: what the outputs, or those of the blend, mean.
        classes: the name of each class; None: its number.
        num: how many of each to list, at most.
    """
    check_count("num", num)
    first, data = members[0], members[0].data
    before = _predict(members, node, [[]], task)
    number = task.name == "regression"
    chosen = 0 if number else int(before.argmax())

    def effects(things: Sequence[Sequence[Thing]]) -> list[float]:
        """What the class loses without each of these sets, or by how much the number moves."""
        if not things:
            return []
        lost = before[0, chosen] - _predict(members, node, things, task)[:, chosen]
        return (lost.abs() if number else lost).tolist()

    links = first.linker.rank(node, chosen)
    pairs = [(one, other, -1) for one, other in _candidates(links.pairs, (links.pairs == node).any(1), num, links)]
    others = links.neighbours(node)
    near = [(other, -1, -1) for other in _candidates(others, links.distance[others] == 1, num, links)]
    own = [] if data.get("x") is None else [(-1, -1, each) for each in _own_columns(data.x, node)]
    alone = effects([[each] for each in (*pairs, *near, *own)])
    neighbours = _largest(near, alone[len(pairs) : len(pairs) + len(near)], num)
    by_column = dict(zip(own, alone[len(pairs) + len(near) :]))
    sets = _sets(dict(zip(pairs, alone)), num, node), _sets(by_column, num)
    joint = effects([*sets[0][1:], *sets[1][1:]])
    edges, together, size = _choose(dict(zip(pairs, alone)), num, sets[0], joint[: max(0, len(sets[0]) - 1)])
    columns, _, _ = _choose(by_column, num, sets[1], joint[max(0, len(sets[0]) - 1) :])
    ids, names = node_ids(data), data.get("feature_names")
    ends = [_direct(links, first.graph, one, other) for (one, other, _), _ in edges]
    return Explanation(
        node=ids[node].as_py(),
        prediction=float(before[0, 0]) if number else chosen if classes is None else classes[chosen],
        probability=None if number else float(before[0, chosen]),
        edges=tuple((*(ids[end].as_py() for end in pair), effect) for pair, (_, effect) in zip(ends, edges)),
        neighbours=tuple((ids[other].as_py(), effect) for (other, _, _), effect in neighbours),
        columns=tuple((column if names is None else names[column], effect) for (_, _, column), effect in columns),
        together=together,
        num_together=size,
    )


def _sets(alone: Mapping[Thing, float], num: int, node: int = -1) -> list[list[Thing]]:
    """The best thing alone, and it with one or two of those that may cost more with it, the smallest sets first."""
    ranked = sorted(alone, key=lambda each: -alone[each])
    pool = [*ranked[:POOL], *[each for each in ranked[POOL:] if node in each[:2]][:OWN_POOL]]
    sizes = range(min(JOINT, num, len(pool)))
    return [[pool[0], *rest] for size in sizes for rest in combinations(pool[1:], size)]


def _choose(
    alone: Mapping[Thing, float], num: int, sets: Sequence[Sequence[Thing]], joint: Sequence[float]
) -> tuple[list[tuple[Thing, float]], float, int]:
    """Things and their effects alone: the set that costs the most, then the others; its effect and its size.

    Args:
        alone: the effect of each thing.
        num: how many to list, at most.
        sets: of things, the first of one alone.
        joint: the effects of the other sets.
    """
    costs = [alone[sets[0][0]], *joint] if sets else []
    best = next((number for number, cost in enumerate(costs) if cost >= max(costs) - LEAST), None)
    if best is None or costs[best] <= 0:
        return [], 0.0, 0
    others = sorted(
        (each for each in alone if each not in sets[best] and alone[each] > 0), key=lambda each: -alone[each]
    )
    return [(each, alone[each]) for each in [*sets[best], *others][:num]], costs[best], len(sets[best])


def _predict(members: Sequence[Explained], node: int, things: Sequence[Sequence[Thing]], task: Task) -> Tensor:
    """The probabilities of a node without each of these sets, `[V, C]`, or its number first."""
    given = Deletions.of(things)
    found = [member.predict(node, given) for member in members]
    return task.predict(task.combine(found) if len(found) > 1 else found[0].outputs)


def find_node(data: Data, node: Any) -> int:
    """The row of the node of this id.

    Raises:
        ValueError: when there is none.

    >>> import gpnn
    >>> find_node(gpnn.Graph([0], [1], num_nodes=2).to_data(), "1")
    1
    """
    words = str(node).encode(errors="backslashreplace").decode()  # a terminal passes bytes on that are no text
    (row,) = find_nodes(data, [words])
    return int(row)


def _candidates(ranked: Tensor, own: Tensor, num: int, links: Links) -> list[Any]:
    """What is worth a deletion: the node's own, of which a gradient says too little, and the best of the others.

    Without its only edge over the cut a node has no part in the cut's phase, and its state jumps.
    """
    near = ranked[own][: OWN * num].tolist()
    further = max(num + SPARE - len(near), num // 2) if links.guided else num * UNGUIDED
    return [*near, *ranked[~own][:further].tolist()]


def _largest(candidates: Sequence[Any], effects: Sequence[float], num: int) -> list[tuple[Any, float]]:
    """The candidates of the largest positive effects, and these."""
    found = [each for each in zip(candidates, effects, strict=True) if each[1] > 0]
    return sorted(found, key=lambda each: -each[1])[:num]


def _direct(links: Links, graph: Graph, one: int, other: int) -> tuple[int, int]:
    """Two joined nodes as source and target of an edge that there is, towards the explained node where both are."""
    first, second = (one, other) if links.distance[one] >= links.distance[other] else (other, one)
    return (first, second) if bool(((graph.src == first) & (graph.dst == second)).any()) else (second, first)


def _own_columns(x: Tensor, node: int) -> list[int]:
    """The columns in which a node has something, the largest values first."""
    row = row_of(x, node)
    order = row.abs().argsort(descending=True, stable=True)
    return order[: min(MOST_COLUMNS, int(row.count_nonzero()))].tolist()


ROW, LAYER, MARGIN, HEAD = 40.0, 168.0, 22.0, 30.0  # between nodes, between layers, at the sides, of headings
RADIUS, WIDEST, LONGEST = 9.0, 9.0, 20  # of a node, of an edge, letters of a name
BARS, NAMES = 150.0, 170.0  # longest bar of a column, and what its name takes
OWN_COLOR, OTHER, LINE = "#4477aa", "#c9d2db", "#4477aa"


def draw_explanation(explanation: Explanation) -> str:
    """The listed edges, each as wide as its effect, and the listed columns as bars.

    The explained node is on the right, and every other node in a layer by the hops of listed edges to it; those that no
    listed edge joins to it are on the left.

    >>> why = Explanation("anna", "chess", 0.9, (("bo", "anna", 0.2),), (), (("age", 0.1),))
    >>> [word in draw_explanation(why) for word in ("anna", "bo → anna: 20.0 %", "age")]
    [True, True, True]
    """
    layers = _layers(explanation)
    columns = [each for each in explanation.columns if each[1] >= explanation.least]
    tall = max([len(names) for names in layers] + [len(columns)])
    width = max(1, len(layers)) * LAYER
    height = HEAD + max(1, tall) * ROW + MARGIN
    parts = [svg.text("edges, as wide as their effects", MARGIN, 20, 12, fill=svg.MUTED)]
    places = {}
    for number, names in enumerate(layers):
        x = width - LAYER / 2 - number * LAYER
        top = HEAD + (height - MARGIN - HEAD - len(names) * ROW) / 2
        for row, name in enumerate(names):
            places[name] = np.array([x, top + (row + 0.4) * ROW])
    parts += _edges(explanation, places) + _nodes(explanation, places)
    if columns:
        parts += _bars(explanation, columns, width + MARGIN)
        width += MARGIN + NAMES + BARS + 60
    return svg.document(parts, width + MARGIN, height, f"What carried the prediction. {explanation.title}")


def _layers(explanation: Explanation) -> list[list[str]]:
    """The explained node, the others by their hops from it along listed edges either way, then those without a way."""
    joined: dict[str, set[str]] = {str(explanation.node): set()}
    for source, target, _ in explanation.edges:
        for one, other in ((str(source), str(target)), (str(target), str(source))):
            joined.setdefault(one, set()).add(other)
    layers, seen = [[str(explanation.node)]], {str(explanation.node)}
    while front := [name for name in joined if name not in seen and joined[name] & {*layers[-1]}]:
        layers.append(front)
        seen |= {*front}
    left = [name for name in joined if name not in seen]
    return [*layers, left] if left else layers


def _edges(explanation: Explanation, places: dict[str, np.ndarray]) -> list[str]:
    most = max([abs(effect) for *_, effect in explanation.edges], default=0.0) or 1.0
    parts = []
    for source, target, effect in explanation.edges:
        start, end = places[str(source)], places[str(target)]
        bend = 0.0 if start[0] != end[0] else 46.0  # within a layer it goes around the names between
        line = svg.loop(start, RADIUS, 0) if source == target else svg.curve(start, end, bend, RADIUS + 3)
        share = max(0.0, effect) / most
        title = svg.element("title", escape(f"{source} → {target}: {explanation.words(effect)}"))
        parts.append(
            svg.element("g", title, svg.arrow(line, LINE, 1.0 + (WIDEST - 1) * share), opacity=0.35 + 0.5 * share)
        )
    return parts


def _nodes(explanation: Explanation, places: dict[str, np.ndarray]) -> list[str]:
    parts = []
    for name, (x, y) in places.items():
        own = name == str(explanation.node)
        circle = svg.element(
            "circle", cx=float(x), cy=float(y), r=RADIUS, fill=OWN_COLOR if own else OTHER, stroke=svg.INK
        )
        weight = {"font_weight": "bold"} if own else {}
        label = svg.text(_short(name), float(x), float(y) + RADIUS + 12, 11, text_anchor="middle", **weight)
        parts.append(svg.element("g", svg.element("title", escape(name)), circle, label))
    return parts


def _bars(explanation: Explanation, columns: Sequence[tuple[Any, float]], left: float) -> list[str]:
    parts = [svg.text("columns of the node, by their effects", left, 20, 12, fill=svg.MUTED)]
    most = max(effect for _, effect in columns)
    for row, (name, effect) in enumerate(columns):
        y, length = HEAD + row * ROW + 12, BARS * effect / most
        bar = svg.element("rect", x=left + NAMES, y=y - 9, width=length, height=18, rx=2, fill=OWN_COLOR)
        label = svg.text(_short(name), left + NAMES - 8, y + 4, 12, text_anchor="end")
        value = svg.text(explanation.words(effect), left + NAMES + length + 6, y + 4, 11, fill=svg.MUTED)
        parts.append(svg.element("g", svg.element("title", escape(str(name))), bar, label, value))
    return parts


def _short(name: Any) -> str:
    words = str(name)
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
