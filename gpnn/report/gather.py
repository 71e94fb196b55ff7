"""The record of a run, gathered from its objects in every process of a group of size 1 or n."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.splits import split_mask
from gpnn.distributed import ProcessGroup, ShardedPlan, group_of, measure_shards, number_parts
from gpnn.engine import Plan
from gpnn.graph import Graph, as_graph
from gpnn.partition import Partition, Quality
from gpnn.report.cost import Cost
from gpnn.report.counts import SPLIT_NAMES, count_phases, count_predictions, count_quotient
from gpnn.report.drawing import MAX_NODES
from gpnn.report.nodes import MAX_LISTED, count_degrees, first_nodes, rank_nodes
from gpnn.report.numbers import View, sample_numbers, view_of
from gpnn.report.record import NodeFacts, Notable, Record, Sample, SmallGraph

if TYPE_CHECKING:
    from torch_geometric.data import Data

MAX_SAMPLE = 1500


def gather_record(
    run: Mapping[str, Any],
    data: Data,
    plan: Plan,
    predictions: Tensor,
    *,
    partition: Partition | None = None,
    states: Tensor | None = None,
    states_name: str = "final states",
    cost: Cost | None = None,
) -> Record | None:
    """In rank 0 the record of a run, elsewhere None; collective.

    Between processes travel counts by class, by subgraph and by phase, and the rows of a sample of the nodes.

    Args:
        run: name, run, metrics, history, config, environment, seed and notes of the record.
        data: features, labels and masks of this process's n nodes.
        plan: the lowered schedule of the whole graph, or of this process's shard.
        predictions: what the task of the data gives for each of the nodes, on the CPU: the probability of each class,
            `[n, C]`, or numbers and their intervals, `[n, 3]`.
        partition: the subgraphs of a whole graph; shards know theirs.
        states: of each of the nodes, `[n, d]`, or None where they were not computed.
        states_name: what these are.
        cost: time and memory of one pass in this process.
    """
    group, splits = group_of(plan), {name: split_nodes(data, name) for name in SPLIT_NAMES}
    own, view = _held(data, plan, partition, splits["train"]), view_of(data, predictions, group)
    gathered: dict[str, Any] = {
        "phases": count_phases(plan.schedule, group.all_reduce),
        "numbers": sample_numbers(view, splits, group),
        "shares": _shares(plan, cost),
    }
    if view.numbers is None:
        gathered["predictions"] = count_predictions(view.probabilities, view.y, splits, group.all_reduce)
    if own.parts is not None:
        gathered["quotient"] = count_quotient(own.graph, own.parts, view.probabilities, own.num_parts, group.all_reduce)
    gathered["notable"] = _gather_notable(data, view, own, splits, group)
    if states is not None:
        rows = torch.isin(own.nodes, draw_sample(own.num_nodes, run["seed"])).nonzero().flatten()
        drawn = _describe(data, view, own, rows)
        gathered["sample"] = _gather_sample(
            Sample(drawn, states[rows].float().cpu(), states_name, own.num_nodes), own.nodes[rows], group
        )
    if group.rank:
        return None
    if not gathered["shares"] and own.num_nodes <= MAX_NODES:
        facts = _describe(data, view, own, own.nodes)
        gathered["small"] = SmallGraph(own.graph, facts, partition, plan.schedule)
    return Record(**run, classes=view.names, multi_label=view.y.dim() == 2, cost=cost, quality=own.quality, **gathered)


def split_nodes(data: Data, name: str) -> Tensor:
    """The labelled nodes of "train", "val" or "test", maybe none."""
    return split_mask(data, name).nonzero().flatten()


def draw_sample(num_nodes: int, seed: int) -> Tensor:
    """At most 1,500 nodes, drawn without replacement, in ascending order."""
    if num_nodes <= MAX_SAMPLE:
        return torch.arange(num_nodes)
    drawn = np.random.default_rng(seed).choice(num_nodes, MAX_SAMPLE, replace=False)
    return torch.from_numpy(np.sort(drawn))


@dataclass(frozen=True, eq=False)
class _Held:
    """What this process holds of a graph: all of it, or its shard.

    Attributes:
        graph: own rows, then rows of other processes that send to them.
        nodes: the user's node of each own row, `[n]`.
        num_nodes: nodes of the whole graph.
        parts: the subgraph of each row of `graph`, `[n + h]`, or None without a partition.
        num_parts: number of subgraphs of the whole graph.
        quality: of the partition, over all processes.
    """

    graph: Graph
    nodes: Tensor
    num_nodes: int
    parts: Tensor | None = None
    num_parts: int = 0
    quality: Quality | None = None

    @cached_property
    def degrees(self) -> Tensor:
        """The edges of each own row that this process knows, `[n]`."""
        return count_degrees(self.graph)[: len(self.nodes)]


def _held(data: Data, plan: Plan, partition: Partition | None, train: Tensor) -> _Held:
    if isinstance(plan, ShardedPlan):
        shard, group = plan.shard, plan.group
        numbering = number_parts(shard, plan.halo, group)
        quality = measure_shards(shard, plan.halo, group, numbering, train)
        totals = shard.totals
        return _Held(shard.graph, plan.nodes.cpu(), totals.num_nodes, numbering.parts, totals.num_parts, quality)
    graph, number = as_graph(data), data.num_nodes
    if partition is None:
        return _Held(graph, torch.arange(number), number)
    parts = (partition.labels, partition.num_parts, partition.quality(data))
    return _Held(graph, torch.arange(number), number, *parts)


def _describe(data: Data, view: View, own: _Held, rows: Tensor) -> NodeFacts:
    """What is known of some of this process's own rows."""
    names = data.get("node_name")
    splits = torch.full((len(own.nodes),), -1)
    for number, name in enumerate(SPLIT_NAMES):
        splits[split_nodes(data, name)] = number
    return NodeFacts(
        [str(name) for name in (own.nodes[rows].tolist() if names is None else _pick(names, rows))],
        view.names,
        view.probabilities[rows],
        view.y[rows],
        splits[rows],
        None if own.parts is None else own.parts[rows],
        own.num_parts,
        view.kind,
        None if view.numbers is None else view.numbers[rows],
        own.degrees[rows],
    )


def _pick(names: Any, rows: Tensor) -> list[Any]:
    """Some entries of a list, an array or a tensor of names."""
    return names[rows].tolist() if isinstance(names, Tensor) else [names[row] for row in rows.tolist()]


def _gather_sample(own: Sample, nodes: Tensor, group: ProcessGroup) -> Sample:
    """The rows that all processes drew, in the order of nodes; collective.

    Args:
        own: this process's rows.
        nodes: the user's nodes in them.
        group: the processes.
    """
    order = torch.cat(group.all_gather(nodes)).argsort()
    everyone = _gather_facts(own.facts, group)
    facts = everyone.map_rows([everyone.names[place] for place in order.tolist()], lambda rows: rows[order])
    return Sample(facts, torch.cat(group.all_gather(own.states))[order], own.name, own.num_nodes)


def _gather_facts(own: NodeFacts, group: ProcessGroup) -> NodeFacts:
    """What all processes know of their nodes, rank after rank; collective."""
    texts = torch.frombuffer(bytearray(json.dumps(own.names).encode()), dtype=torch.uint8)
    names = [name for part in group.all_gather(texts) for name in json.loads(bytes(part.numpy()))]
    return own.map_rows(names, lambda rows: torch.cat(group.all_gather(rows)))


def _gather_notable(data: Data, view: View, own: _Held, splits: Mapping[str, Tensor], group: ProcessGroup) -> Notable:
    """The nodes worth a look of all processes; collective."""
    held_out = torch.zeros(len(own.nodes), dtype=torch.bool)
    held_out[torch.cat([splits["test"], splits["val"]])] = True
    ranked = rank_nodes(view, held_out, own.degrees)
    chosen = [first_nodes(scores) for scores in ranked.values()]
    facts = _gather_facts(_describe(data, view, own, torch.cat(chosen)), group)
    scores = torch.cat(group.all_gather(torch.cat([each[rows] for each, rows in zip(ranked.values(), chosen)])))
    numbers = [torch.full((len(rows),), number) for number, rows in enumerate(chosen)]
    member = torch.cat(group.all_gather(torch.cat(numbers)))
    lists = {}
    for number, name in enumerate(ranked):
        places = (member == number).nonzero().flatten()
        lists[name] = places[scores[places].argsort(descending=True, stable=True)][:MAX_LISTED].tolist()
    return Notable(facts, lists)


def _shares(plan: Plan, cost: Cost | None) -> list[dict[str, int]]:
    """What each process holds of a graph that is divided among processes, by rank; of a whole one nothing."""
    if not isinstance(plan, ShardedPlan):
        return []
    shard = plan.shard
    counts = {
        "subgraphs": len(shard.part_ptr.unique_consecutive()) - 1,
        "nodes": plan.num_nodes,
        "edges": shard.graph.num_edges,
        "halo rows": len(shard.halo),
        "peak MiB": ((cost and cost.peak) or 0) >> 20,
    }
    rows = torch.cat(plan.group.all_gather(torch.tensor([list(counts.values())]))).tolist()
    return [dict(zip(counts, row)) for row in rows]
