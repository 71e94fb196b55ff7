"""Variants: a node's outputs in many graphs that each lack a little, in one pass over what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import csr_tensor, scale_rows
from gpnn.incremental.dynamic_graph import SENDS, DynamicGraph, Edges, Round, required, sum_by_side
from gpnn.incremental.predictor import Predictor
from gpnn.incremental.region import Tape
from gpnn.incremental.rows import distinct


class Deletions(NamedTuple):
    """What variants of a graph lack, `[n]` each: entry i says that its variant lacks a thing, one of several maybe.

    Attributes:
        variant: whose entry it is, rising.
        one: a node, or -1.
        other: the edges between it and this node go, either way; -1: all edges of `one`.
        column: the feature of the predicted node that is 0, or the mean where the model has one, or -1.
        number: how many variants there are, V.
    """

    variant: np.ndarray
    one: np.ndarray
    other: np.ndarray
    column: np.ndarray
    number: int

    @classmethod
    def of(cls, variants: Sequence[Sequence[tuple[int, int, int]]]) -> Deletions:
        """From what each variant lacks: node, other node, column.

        >>> Deletions.of([[(0, 1, -1)], [], [(2, -1, -1), (-1, -1, 5)]]).variant.tolist()
        [0, 2, 2]
        """
        entries = [(number, *each) for number, things in enumerate(variants) for each in things]
        variant, one, other, column = np.array(entries, np.int64).reshape(-1, 4).T
        return cls(variant, one, other, column, len(variants))

    def lacks(self, variant: np.ndarray, edges: Edges, size: int) -> np.ndarray:
        """Whether the edge, between two of so many slots, is not there in the variant, `[e]`."""
        pair, whole = self.other >= 0, (self.one >= 0) & (self.other < 0)
        ends, centre = np.zeros((2, size), bool)
        ends[self.one[pair]], ends[self.other[pair]], centre[self.one[whole]] = True, True, True
        gone = np.zeros(len(variant), bool)
        if pair.any():
            some = np.flatnonzero(ends[edges.src] & ends[edges.dst])
            keys = _join(self.variant[pair], self.one[pair], self.other[pair], size)
            gone[some] = np.isin(_join(variant[some], edges.src[some], edges.dst[some], size), keys)
        for end in (edges.src, edges.dst) if whole.any() else ():
            some = np.flatnonzero(centre[end])
            gone[some] |= np.isin(variant[some] * size + end[some], self.variant[whole] * size + self.one[whole])
        return gone


def _join(variant: np.ndarray, one: np.ndarray, other: np.ndarray, size: int) -> np.ndarray:
    """A number for a variant and two nodes, in either order."""
    return (variant * size + np.minimum(one, other)) * size + np.maximum(one, other)


def predict_variants(predictor: Predictor, node: int, deletions: Deletions, *, scaled: bool = False) -> Tensor:
    """The outputs of a node in each variant, `[V, C]`.

    What differs from the graph as it is, and may reach the node, is computed for all variants together.

    Args:
        predictor: of the graph, whose states it keeps.
        node: the slot of the node.
        deletions: the variants.
        scaled: whether rows of features sum to one, as they do again without a column.
    """
    assert predictor.tape is not None
    assert predictor.outputs is not None
    assert predictor.round is not None
    outputs = predictor.outputs[node].repeat(deletions.number, 1)
    symmetric = predictor.pipeline.normalization.startswith("symmetric")
    if not len(deletions.variant):
        return outputs
    keys = _differing(predictor.graph.edges, predictor.round, node, deletions, symmetric)
    copies = VariantGraph(predictor.graph.edges, deletions, distinct(*keys))
    rows = [copies.slots_of(each) for each in keys[:-1]]
    wanted = copies.slots_of(keys[-2][keys[-2] % copies.size == node])
    if len(wanted):
        tape = VariantTape(predictor.tape, copies)
        x = _features(predictor, copies, distinct(rows[0], wanted), node, deletions, scaled)
        found = predictor.run(copies, rows, tape, wanted, x)
        outputs[torch.from_numpy(copies.variant[wanted - copies.size])] = found
    return outputs


def _differing(graph: DynamicGraph, round: Round, node: int, deletions: Deletions, symmetric: bool) -> list[np.ndarray]:
    """Variant · S + slot of states that differ and matter: at the start, after each step; then ends of what is gone."""
    size, needed = graph.num_slots, required(graph, round, np.array([node]))
    inside = np.zeros((len(needed), size), bool)
    for step, nodes in enumerate(needed):
        inside[step, nodes] = True
    concerned, touched = _concerned(graph, deletions, symmetric)
    found = [distinct(deletions.variant[deletions.column >= 0] * size + node)]
    first = found[0]
    for done, (_, _, phase, repeat) in enumerate(round.steps()):
        first = found[-1] if repeat == 0 else first
        sends = SENDS[phase.kind]
        reached = [found[-1], concerned]
        for side, sent in enumerate(sends):
            keys = first if phase.kind == "held" and side else found[-1]
            if sent and len(keys):
                reached.append(_receivers(graph, keys, side))
        keys = distinct(*reached)
        found.append(keys[inside[done + 1][keys % size]])
    return [*found, touched[inside[0][touched % size]]]


def _concerned(graph: DynamicGraph, deletions: Deletions, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """Keys of nodes that receive otherwise in a variant, and of those whose own edges differ."""
    first = deletions.variant * graph.num_slots
    pair, whole = deletions.other >= 0, (deletions.one >= 0) & (deletions.other < 0)
    keys = [(first + deletions.one)[deletions.one >= 0], (first + deletions.other)[pair]]
    for rows in (graph.incoming, graph.outgoing):
        counts, (ends, *_) = rows.gather(deletions.one[whole])
        keys.append(np.repeat(first[whole], counts) + ends)
    touched = distinct(*keys)
    if not symmetric:
        return touched, touched
    return distinct(touched, *(_receivers(graph, touched, side) for side in range(2))), touched


def _receivers(graph: DynamicGraph, keys: np.ndarray, crosses: int) -> np.ndarray:
    """Keys of the nodes that nodes send to, inside their subgraph or over the cut."""
    counts, (dst, *_) = graph.outgoing.gather(keys % graph.num_slots)
    source = np.repeat(keys, counts)
    chosen = (graph.labels[source % graph.num_slots] != graph.labels[dst]) == bool(crosses)
    return (source - source % graph.num_slots + dst)[chosen]


class VariantGraph:
    """A graph, and after its slots copies of nodes whose surroundings differ in a variant, as a region reads it.

    Args:
        graph: as it is.
        deletions: the variants.
        keys: variant · S + slot of each copy, rising, `[M]`.
    """

    def __init__(self, graph: DynamicGraph, deletions: Deletions, keys: np.ndarray) -> None:
        self.size, self.keys = graph.num_slots, keys
        self.variant, self.node = keys // self.size, keys % self.size
        self.num_slots = self.size + len(keys)
        self.labels = np.concatenate([graph.labels, graph.labels[self.node]])
        counts, columns = graph.incoming.gather(self.node)
        copy = np.repeat(np.arange(len(keys)), counts)
        src, *values = columns
        types = values.pop(0) if graph.typed else None
        edges = Edges(src, self.node[copy], types, values[0] if values else None)
        left = ~deletions.lacks(self.variant[copy], edges, self.size)
        edges, self._copy = edges.select(left), copy[left]
        crosses = graph.labels[edges.src] != graph.labels[edges.dst]
        sender = np.searchsorted(keys, sent := self.variant[self._copy] * self.size + edges.src)
        same = keys[np.minimum(sender, len(keys) - 1)] == sent
        self._edges = edges._replace(src=np.where(same, self.size + sender, edges.src), dst=self.size + self._copy)
        sums, found = sum_by_side(self._copy, crosses, edges.weight, len(keys))
        self.inside, self.cut = (np.concatenate(both) for both in zip((graph.inside, graph.cut), sums))
        self.receives_inside = np.concatenate([graph.receives_inside, found[0]])
        self.receives_cut = np.concatenate([graph.receives_cut, found[1]])
        self.at_cut = np.concatenate([graph.at_cut, found[1] | self._sends(graph, deletions)])

    def _sends(self, graph: DynamicGraph, deletions: Deletions) -> np.ndarray:
        """Which copies send over the cut, `[M]`."""
        counts, (dst, *_) = graph.outgoing.gather(self.node)
        copy = np.repeat(np.arange(len(self.keys)), counts)
        edges = Edges(self.node[copy], dst)
        crosses = (graph.labels[edges.src] != graph.labels[dst]) & ~deletions.lacks(
            self.variant[copy], edges, self.size
        )
        return np.bincount(copy[crosses], None, len(self.keys)) > 0

    def slots_of(self, keys: np.ndarray) -> np.ndarray:
        """The slots of copies, `[n]`."""
        return self.size + np.searchsorted(self.keys, keys)

    def edges_into(self, slots: np.ndarray) -> Edges:
        """The edges into copies, rising."""
        chosen = np.zeros(len(self.keys), bool)
        chosen[slots - self.size] = True
        return self._edges.select(chosen[self._copy])


class VariantTape:
    """The states of a tape, and those of copies, which begin as their nodes' are."""

    def __init__(self, base: Tape, graph: VariantGraph) -> None:
        self.base, self.size = base, graph.size
        self.states = [base.read(step, graph.node) for step in range(len(base.states))]

    def read(self, step: int, slots: np.ndarray) -> Tensor:
        """The states of some slots after a step, `[n, s]`."""
        own, copy = self.states[step], slots >= self.size
        if copy.all():
            return own.index_select(0, torch.from_numpy(slots - self.size))
        found = own.new_empty(len(slots), own.shape[1])
        copies, others = np.flatnonzero(copy), np.flatnonzero(~copy)
        found[torch.from_numpy(copies)] = own.index_select(0, torch.from_numpy(slots[copies] - self.size))
        found[torch.from_numpy(others)] = self.base.read(step, slots[others])
        return found

    def write(self, step: int, slots: np.ndarray, values: Tensor) -> None:
        """Set those of copies."""
        self.states[step][torch.from_numpy(slots - self.size)] = values.to(self.states[step].dtype)


def _features(
    predictor: Predictor, graph: VariantGraph, slots: np.ndarray, node: int, deletions: Deletions, scaled: bool
) -> Tensor | None:
    """The features of copies, `[n, F]`; that of the node without the columns that its variant lacks."""
    x = predictor.graph.take_features(graph.node[slots - graph.size])
    if x is None:
        return None
    chosen = deletions.column >= 0
    keys = deletions.variant[chosen] * graph.size + node
    row, columns = np.searchsorted(slots, graph.slots_of(keys)), deletions.column[chosen]
    changed = distinct(row)
    if x.layout == torch.strided:
        rows = torch.from_numpy(changed)
        mean: Tensor | None = getattr(predictor.model, "feature_mean", None)
        x[torch.from_numpy(row), torch.from_numpy(columns)] = 0.0 if mean is None else mean[columns].to(x)
        x[rows] = scale_rows(x[rows]) if scaled else x[rows]
        return x
    ptr, index, values = (each.numpy() for each in (x.crow_indices(), x.col_indices(), x.values().clone()))
    for each in changed:
        entries = slice(ptr[each], ptr[each + 1])
        values[entries][np.isin(index[entries], columns[row == each])] = 0
        total = np.abs(values[entries]).sum()
        values[entries] /= total if scaled and total > 0 else 1
    return csr_tensor(ptr, index, values, (x.shape[0], x.shape[1]))
