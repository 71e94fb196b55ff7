"""ColumnModel: scores from a node's own columns and its neighbours', linear or by decision trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gpnn.check import check_choice, check_sizes
from gpnn.engine import Plan
from gpnn.graph import Graph
from gpnn.kernels import Operator, aggregate
from gpnn.kernels.autograd import constants
from gpnn.nn.column_fitted import Columns, LinearColumns, Trees
from gpnn.nn.layers import MaskKey, feature_operator
from gpnn.nn.structure_columns import NUM_STRUCTURE, structure_columns

if TYPE_CHECKING:
    import scipy.sparse


MOST_TYPES = 8  # of a graph with more, edges of all types count as one
MOST_COUNTED = 64  # of these types, up to which the edges of each are counted all the same
MOST_PAIRS = 4  # relations whose every pair is walked; of more, one walk over all edges


@dataclass(frozen=True, eq=False)
class Relations:
    """The neighbours of every node, one operator `[N, N]` per edge type and direction; self-loops are left out.

    Attributes:
        each: rows are receivers, columns senders; reversed relations have them the other way round.
        pairs: the relations that a walk of two steps takes, last step first.
        whole: all of them as one.
    """

    each: tuple[Operator, ...]
    pairs: tuple[tuple[Operator, Operator], ...]
    whole: Operator

    @classmethod
    def of(
        cls,
        graph: Graph,
        *,
        num_types: int = 1,
        directed: bool = False,
        weighted: bool = False,
        signed: bool = False,
        device: torch.device | str = "cpu",
    ) -> Relations:
        """The relations of a graph.

        Args:
            graph: edges.
            num_types: types told apart; 1: all count as one.
            directed: whether senders and receivers of a node are told apart.
            weighted: whether edges count by their weights, whose mean is made one; those below zero count as none.
            signed: whether those below zero are types of their own, which count by their size; each type is two then.
                As neighbours of all types together they still count as none.
            device: of the operators.

        >>> [operator.col.tolist() for operator in Relations.of(Graph([0, 2], [1, 1], num_nodes=3), directed=True).each]
        [[0, 2], [1, 1]]
        """
        proper = graph.src != graph.dst
        src, dst = graph.src[proper], graph.dst[proper]
        weight = _mean_one(graph.edge_weight, proper) if weighted else None
        kind = None if num_types == 1 or graph.edge_type is None else graph.edge_type[proper]
        size = weight
        if signed and graph.edge_weight is not None:
            below = (graph.edge_weight[proper] < 0).long()
            kind, size = below if kind is None else 2 * kind + below, _mean_one(graph.edge_weight.abs(), proper)
        each = []
        for number in range(num_types):
            mine = slice(None) if kind is None else kind == number
            ends, own = (src[mine], dst[mine]), None if size is None else size[mine]
            each.append(_operator(*ends, own, graph.num_nodes, device))
            if directed:
                each.append(_operator(*ends[::-1], own, graph.num_nodes, device))
        if directed:
            src, dst = torch.cat([src, dst]), torch.cat([dst, src])
            weight = None if weight is None else torch.cat([weight, weight])
        whole = each[0] if len(each) == 1 else _operator(src, dst, weight, graph.num_nodes, device)
        few = len(each) ** 2 <= MOST_PAIRS
        pairs = tuple((last, first) for last in each for first in each) if few else ((whole, whole),)
        return cls(tuple(each), pairs, whole)

    @cached_property
    def degrees(self) -> Tensor:
        """Neighbours of each node in each relation, `[N, R]`, and the sums of their weights, where edges have some."""
        counts = [operator.ptr.diff() for operator in self.each]
        return torch.stack([*counts, *(_total(each) for each in self.each if each.weight is not None)], 1)

    def means(self) -> tuple[Operator, ...]:
        """The operators that take means; of no neighbours the mean is zero."""
        return tuple(map(_mean, self.each))

    def aggregates(self, x: Tensor) -> list[Tensor]:
        """Mean, sum, maximum and minimum over the neighbours in each relation, zeros without any, `[N, F]` each.

        Extremes do not know weights.
        """
        found = []
        for operator in self.each:
            found += [aggregate(_mean(operator), x), aggregate(operator, x)]
            found += [aggregate(replace(operator, weight=None), x, extreme) for extreme in ("max", "min")]
        return found


def _mean(operator: Operator) -> Operator:
    total = _total(operator)
    return replace(operator, row_scale=torch.where(total > 0, 1 / total.clamp(min=1e-30), 1.0))


def _total(operator: Operator) -> Tensor:
    """The sum of the weights of each row, float64 `[N]`; without weights the number of its entries."""
    count = operator.ptr.diff()
    if operator.weight is None:
        return count.double()
    ones = torch.ones(operator.shape[1], 1, dtype=torch.float64, device=count.device)
    return aggregate(replace(operator, row_scale=None, col_scale=None), ones)[:, 0]


def _mean_one(weight: Tensor | None, edges: Tensor) -> Tensor:
    """The weights of some edges, those below zero being none, such that their mean is one; without any, ones."""
    weight = edges.new_ones(int(edges.sum()), dtype=torch.float32) if weight is None else weight[edges].float()
    return weight.clamp(min=0) / weight.double().clamp(min=0).mean().clamp(min=1e-30).float()


def count_types(graph: Graph, num_types: int, *, directed: bool) -> Tensor:
    """How many edges of each type lead to each node, `[N, T]`, and, where it is directed, from it, `[N, 2T]`.

    >>> count_types(Graph([0, 0], [1, 1], 2, edge_type=[0, 2]), 3, directed=True).tolist()
    [[0, 0, 0, 1, 0, 1], [1, 0, 1, 0, 0, 0]]
    """
    kind = torch.zeros_like(graph.src) if graph.edge_type is None else graph.edge_type.to(graph.src)
    ends = (graph.dst, graph.src) if directed else (graph.dst,)
    size = graph.num_nodes * num_types
    counts = [torch.bincount(end * num_types + kind, minlength=size).view(-1, num_types) for end in ends]
    return torch.cat(counts, 1)


def is_directed(graph: Graph) -> bool:
    """Whether some edge lacks its reverse."""
    from gpnn.partition.neighbours import survey

    return not survey(graph.src.numpy(), graph.dst.numpy())[0]


def closed_walks(last: Operator, first: Operator) -> Tensor:
    """How many walks of two steps end where they began, `[N]`: the diagonal of `last · first`.

    >>> forth, back = Relations.of(Graph([0, 2], [1, 1], num_nodes=3), directed=True).each
    >>> closed_walks(forth, back).tolist(), closed_walks(forth, forth).tolist()
    ([0.0, 2.0, 0.0], [0.0, 0.0, 0.0])
    """
    products = to_scipy(last).multiply(to_scipy(first).T.tocsr())
    return torch.from_numpy(np.asarray(products.sum(1)).ravel()).to(last.ptr.device)


def to_scipy(operator: Operator) -> scipy.sparse.csr_array:
    """The matrix that an operator applies, equal entries added up."""
    from scipy.sparse import csr_array, diags_array

    weight = np.ones(operator.num_entries) if operator.weight is None else operator.weight.cpu().double().numpy()
    entries = (weight, operator.col.cpu().numpy(), operator.ptr.cpu().numpy())
    matrix = csr_array(entries, operator.shape, copy=True)  # adding up sorts in place
    matrix.sum_duplicates()
    if operator.row_scale is not None:
        matrix = diags_array(operator.row_scale.cpu().numpy()) @ matrix
    if operator.col_scale is not None:
        matrix = matrix @ diags_array(operator.col_scale.cpu().numpy())
    return matrix.tocsr()


def _operator(src: Tensor, dst: Tensor, weight: Tensor | None, num_nodes: int, device: torch.device | str) -> Operator:
    weight = None if weight is None else weight.cpu()
    return Operator.from_edges(dst.cpu(), src.cpu(), weight, (num_nodes, num_nodes)).to(device)


def two_step_columns(whole: Operator, x: Tensor) -> list[Tensor]:
    """Sum and mean of features over the walks of two steps that do not return, `[N, F]` each; their log(1 + number).

    >>> path = Relations.of(Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3)).whole
    >>> two_step_columns(path, torch.tensor([[1.0], [2.0], [4.0]]))[0].tolist()
    [[4.0], [0.0], [1.0]]
    """
    values = torch.cat([x, x.new_ones(len(x), 1)], 1)
    returning = closed_walks(whole, whole).to(values)
    sums = aggregate(whole, aggregate(whole, values)) - returning[:, None] * values
    total, count = sums[:, :-1], sums[:, -1:].clamp(min=0)
    return [total, torch.where(count > 0, total / count.clamp(min=1e-30), 0.0), count.log1p()]


PRIOR = 1.0  # labels that every neighbourhood has besides its own, of the mean of all
FOLDS = 5  # of the training nodes, each of which the labels of the others are propagated to
STEPS = 20  # of their propagation
EVIDENCE = 10.0  # labels that are propagated to a training node, on average, as far as the prior is concerned


def label_columns(relations: Relations, target: Tensor, known: Tensor, place: Tensor, hops: int) -> Tensor:
    """The mean target of the labelled neighbours and how many they are, leave-one-out, `[N, W·(D + 1)]`.

    One step for every relation; with two hops, two steps for every pair of them; with three, labels from farther away,
    propagated over all edges: W walks. A walk that returns to its node does not count, and propagated labels are those
    of other folds, so that no node sees its own label. The mean is drawn to that of all labels by one label.

    Args:
        relations: the neighbours.
        target: of the training nodes: shares of classes, labels or a number; zeros elsewhere, `[N, D]`.
        known: 1 for training nodes, 0 elsewhere, `[N]`.
        place: of the training nodes among them, which tells their fold, `[N]`.
        hops: 1, 2 or 3.

    >>> from gpnn.graph import Graph
    >>> path = Relations.of(Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3))
    >>> target, known = torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([1.0, 1.0, 0.0])
    >>> label_columns(path, target, known, torch.tensor([0, 1, 0]), 1)[:, 0].tolist()
    [0.25, 0.75, 0.25]
    """
    labels = torch.cat([target, known[:, None]], 1)  # [N, D + 1]
    sums = [aggregate(operator, labels) for operator in relations.each]
    if hops > 1:
        for last, first in relations.pairs:
            returning = closed_walks(last, first).to(labels)
            sums.append(aggregate(last, aggregate(first, labels)) - returning[:, None] * labels)
    if hops > 2:
        fold = torch.where(known > 0, place % FOLDS, FOLDS)
        sums.append(_propagate_folds(_mean(relations.whole), labels, fold))
    prior = target.sum(0) / known.sum().clamp(min=1)
    return torch.cat([_frequencies(each, prior) for each in sums], 1)


def _propagate_folds(mean: Operator, labels: Tensor, fold: Tensor) -> Tensor:
    """Labels propagated to the nodes of each fold, and to those of none, from all others, `[N, D + 1]`.

    Those others keep their labels, and a node without one takes the mean of its neighbours (Zhu et al. 2003).
    """
    found, known = torch.empty_like(labels), fold < FOLDS
    for number in range(FOLDS + 1):
        inside = fold == number
        keeps = (known & ~inside)[:, None]
        state = others = labels * keeps
        for _ in range(STEPS):
            state = torch.where(keeps, others, aggregate(mean, state))
        found[inside] = state[inside]
    mean_count = found[known, -1].sum() / known.sum().clamp(min=1)  # none is known in a graph of new nodes
    return found * (EVIDENCE / mean_count.clamp(min=1e-12))


def _frequencies(sums: Tensor, prior: Tensor) -> Tensor:
    total, count = sums[:, :-1], sums[:, -1:].clamp(min=0)
    return torch.cat([(total + PRIOR * prior) / (count + PRIOR), count.log1p()], 1)


LABELS = ("class", "several", "number")  # what a training label is: one of C, any of C, or a number
SOLVERS = ("linear", "trees")
# Columns that count: all but those from afar; of them all but the labels around; these; features; all there are; and
# features, their means over the neighbours and degrees.
KINDS = ("all", "unlabelled", "labels", "own", "far", "means")


class ColumnModel(nn.Module):
    """Scores from a node's own columns and its neighbours', by edge type and direction.

    Many features are the X of :class:`~gpnn.nn.column_fitted.LinearColumns`. Its dense columns are the degrees, the
    training labels around a node (:func:`~gpnn.nn.column_model.label_columns`), the structure around it
    (:func:`~gpnn.nn.structure_columns.structure_columns`) and, where features are few, these, their mean, sum, maximum
    and minimum over the neighbours, and sum and mean two steps away. Decision trees may read the dense columns instead;
    of many features those that vary most are dense for them, with their mean over the neighbours.

    Nothing here is trained by gradients: :mod:`gpnn.train.column_solver` solves for the weights.

    Args:
        in_channels: number of features F.
        out_channels: number of outputs C.
        num_types: edge types told apart.
        num_counted: edge types that are not told apart, but whose edges are counted.
        directed: whether senders and receivers of a node are told apart.
        weighted: whether edges count by their weights.
        signed: whether edges whose weight is below zero are types of their own, among the `num_types`.
        hops: how far labels are read, 1, 2 or, for any distance, 3.
        far: whether the structure around a node, and where features are few those two steps away, are described.
        many: whether features are many.
        num_selected: how many of them trees read.
        labels: what a training label is, of `LABELS`.
        num_labels: number of training nodes whose labels are read; 0: none are.
        solvers: how weights are found, of "linear" and "trees".
        iterations: of boosting.
        num_leaves: the most leaves of a tree.

    Raises:
        ValueError: naming the argument and the value.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        num_types: int = 1,
        num_counted: int = 0,
        directed: bool = False,
        weighted: bool = False,
        signed: bool = False,
        hops: int = 3,
        far: bool = False,
        many: bool = True,
        num_selected: int = 0,
        labels: str = "class",
        num_labels: int = 0,
        solvers: Sequence[str] = ("linear",),
        iterations: int = 100,
        num_leaves: int = 31,
    ) -> None:
        super().__init__()
        check_sizes(in_channels=in_channels, out_channels=out_channels, num_types=num_types, num_leaves=num_leaves)
        check_choice("hops", hops, (1, 2, 3))
        check_choice("labels", labels, LABELS)
        for solver in solvers:
            check_choice("solvers", solver, SOLVERS)
        self.in_channels, self.out_channels, self.num_types = in_channels, out_channels, num_types
        self.directed, self.weighted, self.hops, self.many, self.labels = directed, weighted, hops, many, labels
        self.num_counted, self.signed, self.far = num_counted, signed, far
        self.num_selected = num_selected if many else 0
        self.num_labels, self.solvers = num_labels, tuple(solvers)
        self.iterations, self.num_leaves = iterations, num_leaves
        self.num_relations = num_types * (2 if directed else 1)
        num_dense = self.num_dense + self._label_width(num_labels) + self.num_far
        self.linear = LinearColumns(in_channels if many else 0, self.num_relations, num_dense, out_channels)
        if self.num_selected:
            self.register_buffer("selected", torch.zeros(num_selected, dtype=torch.int64))
        several = (out_channels,) if labels == "several" else ()
        kind = torch.float32 if labels == "number" else torch.int64
        self.register_buffer("label_node", torch.zeros(num_labels, dtype=torch.int64))
        self.register_buffer("label_value", torch.zeros(num_labels, *several, dtype=kind))
        per_iteration = 1 if labels == "number" or (labels == "class" and out_channels == 2) else out_channels
        self.trees = Trees(iterations * per_iteration if "trees" in solvers else 0, 2 * num_leaves - 1)
        self.runner: object = "columns"  # no schedule is run
        self._row: Tensor | None = None

    @property
    def num_dense(self) -> int:
        """Dense columns before those of labels and structure: degrees and those of features, few or selected."""
        aggregates = 0 if self.many else self.in_channels * (1 + 4 * self.num_relations)
        return self.num_for_trees + aggregates + self.num_degrees

    @property
    def num_degrees(self) -> int:
        """Columns of degrees: counts of neighbours and, where edges have weights, their sums."""
        return self.num_relations * (2 if self.weighted else 1) + self.num_counted * (2 if self.directed else 1)

    @property
    def num_far(self) -> int:
        """Columns from afar, the last ones: of the structure and, where features are few, those two steps away."""
        features = 0 if self.many or not self.in_channels else 2 * self.in_channels + 1
        return self.far * (NUM_STRUCTURE + features)

    @property
    def num_for_trees(self) -> int:
        """Dense columns, the first ones, that trees alone read: the selected features, of which X has all."""
        return self.num_selected * (1 + self.num_relations)

    @property
    def blocks(self) -> tuple[slice, slice, slice]:
        """Where the degrees, the labels and the columns from afar stand among the dense ones."""
        far = len(self.linear.dense_weight) - self.num_far
        return slice(self.num_dense - self.num_degrees, self.num_dense), slice(self.num_dense, far), slice(far, None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which columns there are to choose among, of `KINDS`, the most first."""
        labels, features = self.num_labels > 0, self.in_channels > 0
        present = {
            "far": self.far,
            "all": labels,
            "unlabelled": True,
            "means": features and not self.many,
            "labels": labels and features,
            "own": features,
        }
        return tuple(kind for kind, there in present.items() if there)

    def kept(self, kind: str) -> Tensor:
        """Which dense columns count, booleans `[D]`."""
        num_columns = len(self.linear.dense_weight)
        place = torch.arange(num_columns, device=self.linear.bias.device)
        bare, degrees = num_columns - self.num_far, self.num_dense - self.num_degrees
        if kind == "labels":  # and degrees
            return (place >= degrees) & (place < bare)
        if kind == "means":  # the first of four aggregates in each relation
            block = place // max(1, self.in_channels) - 1
            return (
                (block < 0) | ((block % 4 == 0) & (place < degrees)) | ((place >= degrees) & (place < self.num_dense))
            )
        own = self.num_selected if self.many else self.in_channels
        return place < {"far": num_columns, "all": bare, "unlabelled": self.num_dense, "own": own}[kind]

    def forward(self, x: Tensor | None, plan: Plan, key: MaskKey | None = None) -> Tensor:
        """The scores of every node, `[N, C]`; nothing is random."""
        del key
        return self.scores(self.columns(x, plan))

    def scores(self, columns: Columns) -> Tensor:
        """The scores of nodes with these columns, `[n, C]`."""
        scores = self.linear(columns)
        with constants():
            has_trees = int(self.trees.get_buffer("count")) > 0
        if has_trees:
            scores = scores + self.trees(columns.dense, self.out_channels).to(scores)
        return scores

    def columns(self, x: Tensor | None, plan: Plan) -> Columns:
        """The columns of every node of a graph.

        Raises:
            ValueError: when `x` does not fit the model or the plan.
        """
        width = 0 if x is None else x.shape[1]
        if width != self.in_channels or (x is not None and x.shape[0] != plan.num_nodes):
            shape = None if x is None else list(x.shape)
            raise ValueError(f"`x` must have shape {[plan.num_nodes, self.in_channels]}. Got {shape}.")
        device = self.linear.bias.device
        graph = plan.schedule.graph
        with constants():
            relations = Relations.of(
                graph,
                num_types=self.num_types,
                directed=self.directed,
                weighted=self.weighted,
                signed=self.signed,
                device=device,
            )
            dense = [relations.degrees.to(self.linear.bias.dtype).log1p()]
            if self.num_counted:
                dense.append(count_types(graph, self.num_counted, directed=self.directed).to(dense[0]).log1p())
            if self.num_labels:
                dense.append(label_columns(relations, *self._label_targets(plan.num_nodes), self.hops))
            far = [structure_columns(to_scipy(relations.whole)).to(dense[0])] if self.far else []
            means = relations.means()
            if self.num_selected and x is not None:
                own = self._select(x).to(self.linear.bias.dtype)
                dense = [own, *(aggregate(mean, own) for mean in means), *dense]
        if not self.many and x is not None:
            own = (x if x.layout == torch.strided else x.to_dense()).to(self.linear.bias.dtype)
            dense = [own, *relations.aggregates(own), *dense]
            far += two_step_columns(relations.whole, own) if self.far else []
        return Columns(x if self.many else None, None, means, torch.cat([*dense, *far], 1))

    def _select(self, x: Tensor) -> Tensor:
        """The selected features, dense, `[N, S]`.

        Raises:
            ValueError: when there is no such feature.
        """
        selected = self.get_buffer("selected")
        if not 0 <= int(selected.min()) <= int(selected.max()) < self.in_channels:
            raise ValueError(f"Selected features must be below {self.in_channels}. Got {int(selected.max())}.")
        operator = feature_operator(x)
        if operator is None:
            return x[:, selected.to(x.device)]
        return aggregate(operator, functional.one_hot(selected, self.in_channels).T.float().contiguous())

    def set_labels(self, nodes: Tensor, value: Tensor) -> None:
        """Take the labels of the training nodes, as many as the model has a place for."""
        self.get_buffer("label_node").copy_(nodes)
        self.get_buffer("label_value").copy_(value)
        self._row = None

    def move_labels(self, row: Tensor) -> None:
        """Read labels in another graph, whose node i was node `row[i]` of the training's, or is new where it is -1."""
        self._row = row

    def _label_targets(self, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Targets `[N, D]`, zeros where a node has none, 1 for nodes that have one, and their places, `[N]` each.

        Raises:
            ValueError: when a label belongs to no node or to no class.
        """
        nodes, value = self.get_buffer("label_node"), self.get_buffer("label_value")
        if self.labels == "class":
            if not 0 <= int(value.min()) <= int(value.max()) < self.out_channels:
                raise ValueError(f"Labels must be classes below {self.out_channels}. Got {int(value.max())}.")
            value = functional.one_hot(value, self.out_channels)
        value = (value[:, None] if value.dim() == 1 else value).to(self.linear.bias.dtype)
        row = torch.arange(num_nodes) if self._row is None else self._row
        if self._row is None and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
            raise ValueError(f"Labels must belong to the {num_nodes} nodes. Got node {int(nodes.max())}.")
        ordered, order = nodes.sort()
        row = row.to(nodes.device)
        place = torch.searchsorted(ordered, row).clamp(max=len(nodes) - 1)
        known = ((row >= 0) & (ordered[place] == row)).to(value.dtype)
        return value[order[place]] * known[:, None], known, place

    def _label_width(self, num_labels: int) -> int:
        channels = 1 if self.labels == "number" else self.out_channels
        pairs = self.num_relations**2 if self.num_relations**2 <= MOST_PAIRS else 1
        walks = self.num_relations + (pairs if self.hops > 1 else 0) + (self.hops > 2)
        return walks * (channels + 1) if num_labels else 0
