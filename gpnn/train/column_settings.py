"""The settings that the solver of columns tries, and the sizes of a ColumnModel for a graph and its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpnn.check import check_choice
from gpnn.graph import as_graph
from gpnn.nn.column_model import KINDS, MOST_COUNTED, MOST_TYPES, is_directed
from gpnn.train.metrics import merit
from gpnn.train.objective import Examples
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data


STRENGTHS = tuple(4.0**power for power in range(-2, 7))  # of a ridge, from strong to weak
# That each kind of columns is tried with: standardised, sparse ones that are scaled halfway, and as they are.
FIRST, FIRST_SPARSE, FIRST_UNSCALED = 4.0, 16.0, 64.0
FAILURES = 2  # settings in a row without improvement, after which no weaker, or no stronger, ridge is tried


class Setting(NamedTuple):
    """What the solver does in one epoch.

    Attributes:
        solver: "linear" or "trees".
        columns: which count, of :data:`gpnn.nn.column_model.KINDS`.
        strength: C of the ridge; 0 for trees.
    """

    solver: str
    columns: str
    strength: float = 0.0

    def to_record(self) -> dict[str, float]:
        """The setting as numbers, which a history holds; trees have strength 0.

        >>> Setting("trees", "own").to_record()
        {'columns': 3, 'strength': 0.0}
        """
        return {"columns": KINDS.index(self.columns), "strength": self.strength}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Setting:
        """The setting of a record of a history."""
        return cls("linear" if record["strength"] else "trees", KINDS[record["columns"]], record["strength"])


def next_setting(
    history: Sequence[Mapping[str, Any]],
    metric: str,
    *,
    kinds: Sequence[str],
    solvers: Sequence[str],
    first: float = FIRST,
    validated: bool = True,
) -> Setting | None:
    """The setting after those of a history; None where there is nothing left to try.

    Each kind of columns is tried with one ridge, and the best of them with trees, where there are any; then other
    kinds, the most columns first, until trees of two in a row are no better than the ridge. Then the ridge of the best
    kind becomes weaker, and after that stronger, as long as that helps. Without validation there is one setting.

    Args:
        history: a record per epoch, with the numbers of its setting and the validation metric.
        metric: its name.
        kinds: columns to try, in turn, the most last.
        solvers: of "linear" and "trees".
        first: the strength of the ridge that each kind is tried with.
        validated: whether there are validation nodes.

    >>> next_setting([], "accuracy", kinds=("all", "own"), solvers=("linear",))
    Setting(solver='linear', columns='all', strength=4.0)
    """
    if not validated:
        return None if history else Setting(solvers[-1], kinds[-1], first if solvers[-1] == "linear" else 0.0)
    tried = {Setting.of(record): merit(metric, record[f"val_{metric}"]) for record in history}
    ridge = [Setting("linear", kind, first) for kind in kinds] if "linear" in solvers else []
    for setting in ridge:
        if setting not in tried:
            return setting
    best = max(ridge, key=tried.__getitem__) if ridge else None
    if "trees" in solvers:
        first_kind = kinds[-1] if best is None else best.columns
        order = [first_kind, *(kind for kind in reversed(kinds) if kind != first_kind)]
        failures = 0
        for trees in (Setting("trees", kind) for kind in order):
            if trees not in tried:
                return trees
            failures = failures + 1 if best is not None and tried[trees] <= tried[best] else 0
            if failures == FAILURES:  # one may be a kind that the ridge preferred by chance
                break
    if best is None:
        return None
    ridges = {each.strength: value for each, value in tried.items() if each[:2] == best[:2]}
    start = STRENGTHS.index(first)
    for path in (STRENGTHS[start:], STRENGTHS[start::-1]):
        strength = _next_strength(path, ridges)
        if strength is not None:
            return best._replace(strength=strength)
    return None


def _next_strength(path: Sequence[float], merits: Mapping[float, float]) -> float | None:
    """The next strength on a path whose first one has a merit; None at its end, or after failures in a row."""
    walked = [merits[strength] for strength in path if strength in merits]
    failures = len(walked) - 1 - walked.index(max(walked))
    return path[len(walked)] if len(walked) < len(path) and failures < FAILURES else None


METHODS = ("auto", "linear", "trees")
FEW = 256  # features of which trees, and extremes over neighbours, are made
MOST_TREES, MOST_WORK = 2000, 1e10  # and rows × columns × trees: together some half a minute on two cores
MOST_ENTRIES = 2e7  # of the dense columns of all nodes that are made for trees alone
MOST_ITERATIONS, LEAST_ITERATIONS = 200, 20
LEAVES, LEAVES_OF_MANY = 15, 31  # of a tree, the latter where it reads those of many features that vary most
LEAST_LABELS = 50  # of fewer, trees learn little
MOST_SENT = 1.5e8  # numbers that a step of labels from farther away may send, of 120 steps: less than a minute in all
MOST_EDGES = 5_000_000  # of a graph whose columns from afar are made: some ten seconds
KIND = {"classification": "class", "multi_label": "several", "regression": "number"}


def column_arguments(data: Data, *, hops: int = 3, method: str = "auto", labels: bool = True) -> dict[str, Any]:
    """The arguments of :class:`gpnn.nn.column_model.ColumnModel` for a graph, as JSON holds them.

    Args:
        data: features, labels and masks.
        hops: how far labels are read, 1, 2 or, for any distance and where the graph is not too large for that, 3; then
            there are columns of the structure and, where features are few, of those two steps away, too.
        method: "linear", "trees", or "auto": linear and, where labels are not few, trees. These read all features where
            they are few; of many those that vary most, where there are as many labels as such columns.
        labels: whether the training labels around a node are columns.

    Raises:
        ValueError: naming the option and the value.
    """
    check_choice("method", method, METHODS)
    x, graph, task = data.get("x"), as_graph(data), task_of(data)
    features = 0 if x is None else x.shape[1]
    num_labels = len(Examples.from_data(data).nodes["train"])
    kind, directed = KIND[task.name], is_directed(graph)
    below = graph.edge_weight is not None and bool((graph.edge_weight < 0).any())
    num_types = graph.num_edge_types * (1 + below)
    apart = num_types <= MOST_TYPES
    num_types, num_counted = (num_types, 0) if apart else (1, graph.num_edge_types)
    few, num_relations = features <= FEW, num_types * (1 + directed)
    width = (features * (3 + 4 * num_relations) if few else FEW * (1 + num_relations)) + 10
    outputs = 1 if kind == "number" or (kind == "class" and task.num_outputs == 2) else task.num_outputs
    work = max(1, num_labels) * width * outputs * (1 if few else 5)  # beside a ridge that suits many columns
    iterations = int(min(MOST_ITERATIONS, MOST_TREES / outputs, MOST_WORK / work))
    enough = num_labels >= LEAST_LABELS if few else num_labels >= width and data.num_nodes * width <= MOST_ENTRIES
    grows = enough and iterations >= (LEAST_ITERATIONS if few else MOST_ITERATIONS)
    solvers = {"linear": ["linear"], "trees": ["trees"], "auto": ["linear", "trees"] if grows else ["linear"]}[method]
    return {
        "in_channels": features,
        "out_channels": task.num_outputs,
        "num_types": num_types,
        "directed": directed,
        "num_counted": num_counted if num_counted <= MOST_COUNTED else 0,
        "weighted": graph.edge_weight is not None and (apart or not below),
        "signed": below and apart,
        "far": hops > 2 and graph.num_edges <= MOST_EDGES,
        "hops": hops if graph.num_edges * (task.num_outputs + 1) <= MOST_SENT else min(hops, 2),
        "many": not few and method != "trees",
        "num_selected": FEW if not few and method == "auto" and grows else 0,
        "labels": kind,
        "num_labels": num_labels if labels else 0,
        "solvers": solvers,
        "iterations": max(LEAST_ITERATIONS, iterations),
        "num_leaves": LEAVES if few else LEAVES_OF_MANY,
    }
