"""Does deleting what an explanation names move the answer more than deleting what GNNExplainer names?

    python benchmarks/explain.py --out benchmarks/results/explain.md

The default recipe's linear model is trained on a citation graph. For random test nodes `gpnn explain` and PyG's
`GNNExplainer` name edges and columns of the same model; an edge counts with its reverse. As many of the one as of the
other are deleted together from the data, the node is predicted again, and the fall of the probability of its class is
compared; "either way" compares the sizes of the changes, a rise as a fall. Nodes for which nothing is listed, and those
of equal falls, are not "more". GNNExplainer has PyG's defaults but the learning rate of its authors, 0.1 for 100 epochs
(with PyG's 0.01 its masks stay near their random start here, and it names little). It learns both masks together: that
of edges multiplies the messages of the model's own schedule, of an edge and its reverse the larger counts; that of
columns multiplies the node's own features. Seconds are CPU time of one node, after the graph as it is
was predicted once; the first call, which predicts it, stands apart.
"""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import MessagePassing

GRAPHS = ("cora", "citeseer")
NUM_NODES, NUM_NAMED = 200, 10


class Masked(nn.Module):
    """A trained GPNN as GNNExplainer takes it: a function of one node's features, whose messages can be masked."""

    def __init__(self, member: Any) -> None:
        super().__init__()
        from gpnn.nn.soft_schedule import make_soft_schedule

        pipeline, labels = member.pipeline, member.subgraphs.labels
        self.member, self.holder, self.node = member, MessagePassing(), 0  # the explainer looks for a MessagePassing
        self.soft = make_soft_schedule(
            pipeline.schedule,
            member.graph,
            member.plan.num_rounds,
            options=pipeline.schedule_options,
            normalization=pipeline.normalization,
            self_loops=pipeline.self_loops,
            device="cpu",
        )
        self.inside = (labels[self.soft.sender] == labels[self.soft.receiver]).float()
        self.edge_index = torch.stack([self.soft.sender, self.soft.receiver])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The scores of all nodes, `[N, C]`, given the features of the explained one, `[1, F]`."""
        model, soft = self.member.model, self.soft
        mask = self.holder._edge_mask
        if mask is not None:
            soft = replace(soft, weight=soft.weight * mask.sigmoid())
        row = torch.tensor([self.node])

        def put(encoder: nn.Module, given: Any, states: Tensor) -> Tensor:
            return states.index_copy(0, row, encoder.forward(x, *given[1:]))

        before, model.runner = model.runner, soft.bind(self.inside)
        hook = model.encoder.register_forward_hook(put)
        try:
            return model(self.member.data.x, self.member.plan)
        finally:
            model.runner = before
            hook.remove()


def name_by_masks(masked: Masked, explainer: Explainer, node: int) -> dict[str, Any]:
    """What GNNExplainer names, the largest masks first: pairs of joined nodes, columns, and its CPU seconds."""
    from gpnn.explain.explained import row_of

    began, masked.node = time.process_time(), node
    torch.manual_seed(node)
    found = explainer(row_of(masked.member.data.x, node)[None], masked.edge_index, index=node)
    masks: dict[tuple[int, int], float] = {}
    for one, other, value in zip(*masked.edge_index.tolist(), found.edge_mask.tolist()):
        key = (min(one, other), max(one, other))
        masks[key] = max(masks.get(key, 0.0), value)
    pairs = sorted((pair for pair in masks if masks[pair] > 0), key=lambda pair: -masks[pair])
    columns = found.node_mask[0].argsort(descending=True, stable=True)[: int(found.node_mask[0].count_nonzero())]
    named = {"edges": pairs[:NUM_NAMED], "columns": columns[:NUM_NAMED].tolist()}
    return named | {"seconds": time.process_time() - began}


def names_of_peer(member: Any, nodes: list[int], kept: Path | None) -> Iterator[dict[str, Any]]:
    """What GNNExplainer names for each node; kept in a file, so that a run that was stopped goes on."""
    masked = Masked(member).eval()
    member.model.eval()
    settings = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    masks = {"edge_mask_type": "object", "node_mask_type": "attributes"}
    explainer = Explainer(masked, GNNExplainer(lr=0.1), "model", **masks, model_config=settings)
    digest = sha256(b"".join(each.detach().numpy().tobytes() for each in member.model.parameters())).hexdigest()
    known = json.loads(kept.read_text()) if kept is not None and kept.exists() else {"model": digest, "nodes": {}}
    if known["model"] != digest:
        raise ValueError(f"{kept} has names for another model. Delete it.")
    for node in nodes:
        if str(node) not in known["nodes"]:
            known["nodes"][str(node)] = name_by_masks(masked, explainer, node)
            if kept is not None:
                kept.write_text(json.dumps(known))
        yield known["nodes"][str(node)]


def fall(classifier: Any, data: Any, node: int, before: np.ndarray, what: str, named: list[Any]) -> float:
    """By how much the probability of the node's class falls without these edges, either way, or columns."""
    fewer = copy(data)
    if what == "edges":
        src, dst = data.edge_index
        low, high = torch.minimum(src, dst), torch.maximum(src, dst)
        gone = torch.zeros(len(src), dtype=torch.bool)
        for one, other in named:
            gone |= (low == min(one, other)) & (high == max(one, other))
        fewer.edge_index = data.edge_index[:, ~gone]
    else:
        fewer.x = data.x.clone() if data.x.layout == torch.strided else data.x.to_dense()
        fewer.x[node, named] = 0
    return float(before.max() - classifier.predict_proba(fewer)[node, before.argmax()])


def measure(name: str, num_nodes: int, num_named: int, kept: Path | None) -> tuple[list[dict[str, float]], float]:
    """For each node the falls and the seconds of both; and the seconds of the first call."""
    import gpnn
    from gpnn.explain import explain_node

    data = gpnn.load_dataset(name)
    classifier = gpnn.GPNNClassifier(recipe="spread", device="cpu", epochs=200).fit(data)
    members, task = list(classifier._placed(data)), classifier.task_
    nodes = np.flatnonzero(data.test_mask.numpy())
    nodes = np.random.default_rng(0).choice(nodes, min(NUM_NODES, len(nodes)), replace=False)[:num_nodes].tolist()
    began = time.process_time()
    explain_node(members, nodes[-1], task=task)
    first, probabilities, rows = time.process_time() - began, classifier.predict_proba(data), []
    for node, theirs in zip(nodes, names_of_peer(members[0], nodes, kept)):
        began = time.process_time()
        why = explain_node(members, node, task=task)
        row = {"s": time.process_time() - began, "peer_s": theirs["seconds"]}
        ours = {"edges": [each[:2] for each in why.edges], "columns": [each[0] for each in why.columns]}
        for what, named in ours.items():
            number = min(num_named, len(named), len(theirs[what]))
            row[f"{what} named"] = number
            row[what] = fall(classifier, data, node, probabilities[node], what, named[:number])
            row[f"peer {what}"] = fall(classifier, data, node, probabilities[node], what, theirs[what][:number])
        rows.append(row)
        print(name, node, row, file=sys.stderr, flush=True)
    return rows, first


def line(name: str, what: str, rows: list[dict[str, float]]) -> list[Any]:
    """One line of the table of falls."""
    ours, theirs = (np.array([row[key] for row in rows]) for key in (what, f"peer {what}"))
    more, less = ours > theirs + 1e-6, ours < theirs - 1e-6
    either = np.abs(ours) > np.abs(theirs) + 1e-6
    shares = [f"{100 * each.mean():.1f} %" for each in (more, ~more & ~less, less, either)]
    return [name, what, len(rows), *shares, f"{ours.mean():.3f}", f"{theirs.mean():.3f}"]


def table(names: list[str], rows: list[list[Any]]) -> str:
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, each))} |" for each in lines)


def page(found: dict[str, tuple[list[dict[str, float]], float]], num_named: int) -> str:
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    command = "    python benchmarks/explain.py --out FILE"
    machine = f"{platform.machine()}, {torch.get_num_threads()} thread, load average {os.getloadavg()[0]:.1f}"
    falls = [line(name, what, rows) for name, (rows, _) in found.items() for what in ("edges", "columns")]
    times = []
    for name, (rows, first) in found.items():
        own = sorted(1000 * row["s"] for row in rows)
        peer = median(row["peer_s"] for row in rows)
        figures = (mean(own), median(own), own[int(0.9 * len(own))], own[-1], 1000 * first)
        times.append([name, *(f"{figure:.0f}" for figure in figures), f"{1000 * peer:.0f}"])
    parts = [
        f"# Explanations, checked by deletion\n\n{command}\n\n{about}",
        f"Machine: {machine}; torch {torch.__version__}. Other work kept the cores busy: CPU time too is longer.",
        f"At most {num_named} deleted together:",
        table(["graph", "what", "nodes", "more", "equal", "less", "either way", "mean fall", "GNNExplainer's"], falls),
        "CPU milliseconds per node:",
        table(["graph", "mean", "median", "90th percentile", "most", "first call", "GNNExplainer's median"], times),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--nodes", type=int, default=NUM_NODES)
    parser.add_argument("--named", type=int, default=3, help="edges or columns deleted together")
    parser.add_argument("--kept", type=Path, help="folder that keeps what GNNExplainer names, for a run that goes on")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {}
    for name in options.graphs:
        kept = None if options.kept is None else options.kept / f"names-{name}.json"
        found[name] = measure(name, options.nodes, options.named, kept)
    text = page(found, options.named)
    print(text)
    if options.out is not None:
        from gpnn.storage.atomic import write_text

        write_text(options.out, text)


if __name__ == "__main__":
    main()
