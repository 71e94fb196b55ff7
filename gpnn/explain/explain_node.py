"""explain_node: the edges, neighbours and columns that carried a prediction, each by what its deletion changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gpnn.check import check_count
from gpnn.explain.explained import Explained, row_of
from gpnn.explain.links import Links, rank_links
from gpnn.graph import Graph
from gpnn.incremental.variants import Deletions
from gpnn.notebook import table_html
from gpnn.run.known_nodes import find_nodes, node_ids
from gpnn.train.task import Classification, Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

OWN = 10  # of the node's own edges, and of its direct neighbours, that are deleted for each one listed
GUIDED, UNGUIDED = 2, 10  # of those further away, where a gradient proposes them, and where none does
MOST_COLUMNS = 100  # of a node that are deleted, those of the largest values


@dataclass(frozen=True)
class Explanation:
    """Why a node got its class: what carried it, the most important first.

    An effect is the probability of the predicted class less that without the thing, all else being equal. Only what
    lowers the probability by being deleted is listed.

    Attributes:
        node: the user's id of it.
        prediction: its most likely class.
        probability: of that class.
        edges: source, target and effect. Edges that join the same two nodes, either way, are deleted together.
        neighbours: nodes near or far, and the effect of deleting all edges of each.
        columns: names, or numbers, of the node's own features, and the effect of setting each to 0.
    """

    node: Any
    prediction: Any
    probability: float
    edges: tuple[tuple[Any, Any, float], ...]
    neighbours: tuple[tuple[Any, float], ...]
    columns: tuple[tuple[Any, float], ...]

    def _repr_html_(self) -> str:
        rows = [("edge", f"{source} → {target}", effect) for source, target, effect in self.edges]
        rows += [("neighbour", *each) for each in self.neighbours]
        rows += [("column", *each) for each in self.columns]
        title = f"{self.node}: {self.prediction}, probability {self.probability:.4f}"
        return table_html(["without", "", "probability lost"], rows, title)


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
        task: what the outputs, or those of the blend, mean: classes.
        classes: the name of each class; None: its number.
        num: how many of each to list, at most.

    Raises:
        ValueError: when numbers are predicted.
    """
    if not isinstance(task, Classification):
        raise ValueError(f"An explanation needs a prediction of classes. Got a {task.name}.")
    check_count("num", num)
    first, data = members[0], members[0].data
    before = _predict(members, node, [(-1, -1, -1)], task)
    chosen = int(before.argmax())
    links = rank_links(first.model, data, first.pipeline, first.plan, first.subgraphs, node, chosen)
    pairs = _candidates(links.pairs, (links.pairs == node).any(1), num, links.guided)
    others = links.neighbours(node)
    near = _candidates(others, links.distance[others] == 1, num, links.guided)
    own = [] if data.get("x") is None else _own_columns(data.x, node)
    deletions = [(*pair, -1) for pair in pairs] + [(other, -1, -1) for other in near] + [(-1, -1, each) for each in own]
    effects = (before[0, chosen] - _predict(members, node, deletions, task)[:, chosen]).tolist() if deletions else []
    edges = _largest(pairs, effects[: len(pairs)], num)
    neighbours = _largest(near, effects[len(pairs) : len(pairs) + len(near)], num)
    columns = _largest(own, effects[len(pairs) + len(near) :], num)
    ids, names = node_ids(data), data.get("feature_names")
    named = [(*(ids[end].as_py() for end in _direct(links, first.graph, *pair)), effect) for pair, effect in edges]
    return Explanation(
        node=ids[node].as_py(),
        prediction=chosen if classes is None else classes[chosen],
        probability=float(before[0, chosen]),
        edges=tuple(named),
        neighbours=tuple((ids[other].as_py(), effect) for other, effect in neighbours),
        columns=tuple((column if names is None else names[column], effect) for column, effect in columns),
    )


def _predict(members: Sequence[Explained], node: int, deletions: Sequence[tuple[int, ...]], task: Task) -> Tensor:
    """The probabilities of a node without each of these, `[V, C]`."""
    given = Deletions(*np.array(deletions, np.int64).T)
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
    (row,) = find_nodes(data, [str(node)])
    return int(row)


def _candidates(ranked: Tensor, own: Tensor, num: int, guided: bool) -> list[Any]:
    """What is worth a deletion: the node's own, of which a gradient says too little, and the best of the others.

    Without its only edge over the cut a node has no part in the cut's phase, and its state jumps.
    """
    return [*ranked[own][: OWN * num].tolist(), *ranked[~own][: num * (GUIDED if guided else UNGUIDED)].tolist()]


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
