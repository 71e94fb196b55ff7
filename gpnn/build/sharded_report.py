"""The page of a run of several processes: each adds its counts, and the first writes what they come to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from gpnn.build.finished import check_same, final_states, history_notes, run_facts
from gpnn.build.objects import Built
from gpnn.build.predict import Trained
from gpnn.build.sharded import build_sharded, read_own
from gpnn.config import Config
from gpnn.engine.sharded import (
    Numbering,
    Peers,
    ShardedPlan,
    is_shard_folder,
    measure_shards,
    number_parts,
    read_index,
)
from gpnn.report import Cost, SharedRecord, can_write, measure_cost, write_report
from gpnn.report.answers import SPLIT_NAMES, count_answers
from gpnn.report.node_facts import NodeFacts, Sample
from gpnn.report.phase_counts import count_phases
from gpnn.report.quotient import draw_together
from gpnn.report.record import draw_sample, split_nodes, split_numbers
from gpnn.train.device import choose_device
from gpnn.train.evaluate import predict_logits, probabilities
from gpnn.train.parameters import own_names
from gpnn.train.processes import Launch, join
from gpnn.train.run_folder import RunFolder

if TYPE_CHECKING:
    from torch_geometric.data import Data


def write_shared_report(run: RunFolder, built: Built) -> None:
    """Write the page of a finished run whose model holds the run's weights, where the first process can; collective."""
    peers = cast(ShardedPlan, built.plan).peers
    if int(peers.from_first(torch.tensor(can_write()))):
        record = gather_shared(run, built)
        if record is not None:
            write_report(record, run.report)
        peers.wait_for_all()


def report_shards(run: RunFolder, config: Config, trained: Trained, page: Path) -> None:
    """Write the page of a run that was trained from a folder of shards, in one process that reads them all."""
    config = replace(config, device=str(choose_device(config.device)))
    index = read_index(config.data.name)
    peers = join(Launch(), torch.device(config.device), timeout=600)
    try:
        shard, data = read_own(index, peers)
        built = build_sharded(config, index, shard, data, peers)
        check_same(trained, built)
        weights = dict(trained.model.state_dict())
        for name in own_names(built.model):
            weights[name] = weights[name][shard.nodes]
        built.model.load_state_dict(weights)
        record = gather_shared(run, built)
        assert record is not None
        write_report(record, page)
    finally:
        dist.destroy_process_group()


def gather_shared(run: RunFolder, built: Built) -> SharedRecord | None:
    """In the first process the record of a run whose model holds the run's weights, else None; collective.

    What travels are counts, by class, by subgraph and by phase, and the rows of a sample of the nodes.
    """
    data, plan, config = built.data, cast(ShardedPlan, built.plan), built.config
    peers, shard = plan.peers, plan.shard
    x, precision = None if data.get("x") is None else data.x.to(plan.device), config.train.precision
    logits = predict_logits(built.model, x, plan, precision=precision)
    likely = probabilities(logits, multi_label=data.y.dim() == 2).cpu()
    splits = {name: split_nodes(data, name) for name in SPLIT_NAMES}
    numbering = number_parts(shard, plan.halo, peers)
    cost = measure_cost(built.model, x, plan, precision=precision, seed=config.seed, passes=1)
    gathered: dict[str, Any] = {
        "answers": count_answers(likely, data.y, splits, peers.total),
        "quality": measure_shards(shard, plan.halo, peers, numbering, splits["train"]),
        "quotient": draw_together(shard.graph, numbering.parts, likely, shard.totals.num_parts, peers.total),
        "phases": count_phases(plan.schedule, peers.total),
        "sample": gather_sample(built, likely, *final_states(built, x, logits), numbering),
        "shares": _shares(plan, cost),
    }
    if peers.rank:
        return None
    return SharedRecord(
        **run_facts(run, config) | {"name": _dataset_name(config)},
        classes=_class_names(data, likely),
        multi_label=data.y.dim() == 2,
        cost=cost,
        notes=[*built.notes, *history_notes(run, built)],
        **gathered,
    )


def gather_sample(built: Built, likely: Tensor, states: Tensor, states_name: str, numbering: Numbering) -> Sample:
    """The same nodes that one process would draw, and what their owners know of them; collective.

    Args:
        built: this process's objects.
        likely: probability of each class for each own node, `[n, C]`.
        states: what the propagation ended in, `[n, d]`.
        states_name: what these are.
        numbering: the subgraphs.
    """
    data, plan = built.data, cast(ShardedPlan, built.plan)
    num_nodes = plan.shard.totals.num_nodes
    nodes = plan.nodes.cpu()
    rows = torch.isin(nodes, draw_sample(num_nodes, built.config.seed)).nonzero().flatten()
    names = nodes if data.get("node_name") is None else data.node_name
    texts = [str(names[row].item() if isinstance(names, Tensor) else names[row]) for row in rows.tolist()]
    columns = (nodes, likely, data.y, split_numbers(data), numbering.parts[: len(nodes)], states.float().cpu())
    where, *gathered = (torch.cat(plan.peers.gather(column[rows])) for column in columns)
    order = where.argsort()
    likely, y, splits, parts, states = (column[order] for column in gathered)
    texts = _gather_texts(texts, plan.peers)
    ordered = [texts[place] for place in order.tolist()]
    classes = _class_names(data, likely)
    facts = NodeFacts(ordered, classes, likely, y, splits, parts, numbering.num_filled)
    return Sample(facts, states, states_name, num_nodes)


def _gather_texts(texts: list[str], peers: Peers) -> list[str]:
    """Everyone's texts, one after the other by rank."""
    written = torch.frombuffer(bytearray(json.dumps(texts).encode()), dtype=torch.uint8)
    return [text for part in peers.gather(written) for text in json.loads(bytes(part.numpy()))]


def _dataset_name(config: Config) -> str:
    """The name of the dataset, also where it was trained on as a folder of shards."""
    name = config.data.name
    return Path(read_index(name).facts["name"] if is_shard_folder(name) else name).name


def _class_names(data: Data, likely: Tensor) -> list[str]:
    names = data.get("class_names")
    return [str(name) for name in (range(likely.shape[1]) if names is None else names)]


def _shares(plan: ShardedPlan, cost: Cost) -> list[dict[str, int]]:
    """What each process holds, by rank."""
    shard = plan.shard
    figures = {
        "subgraphs": len(shard.part_ptr.unique_consecutive()) - 1,
        "nodes": plan.num_nodes,
        "edges": shard.graph.num_edges,
        "halo rows": len(shard.halo),
        "peak MiB": (cost.peak or 0) >> 20,
    }
    rows = torch.cat(plan.peers.gather(torch.tensor([list(figures.values())]))).tolist()
    return [dict(zip(figures, row)) for row in rows]
