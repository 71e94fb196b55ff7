"""Does removing the edges that an explanation names move the answer more than removing those that GNNExplainer names?

    python benchmarks/explain.py --out benchmarks/results/explain.md

The default recipe's linear model is trained on Cora. For random nodes, `gpnn explain` and PyG's `GNNExplainer` (its
default settings, masks of edges) name edges of the same model; an edge counts with its reverse. As many of the one as
of the other, at most `--edges`, are removed together from the data, the node is predicted again, and the fall of the
probability of its class is compared; "either way" compares the sizes of the changes, a rise as a fall. GNNExplainer's
mask multiplies the messages of the model's own schedule; of an edge and its reverse the larger mask counts. Nodes for
which nothing is listed count as lost. Seconds are those of one node, after the graph as it is was predicted once.
"""

import argparse
import os
import platform
import sys
import time
import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import MessagePassing

NUM_NODES = 200


class Masked(nn.Module):
    """A trained GPNN whose messages GNNExplainer can mask: it looks for a `MessagePassing` that holds the mask."""

    def __init__(self, member: Any) -> None:
        super().__init__()
        from gpnn.nn.soft_schedule import make_soft_schedule

        pipeline, labels = member.pipeline, member.subgraphs.labels
        self.member, self.holder = member, MessagePassing()
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
        """The scores of all nodes, `[N, C]`."""
        model, soft = self.member.model, self.soft
        mask = self.holder._edge_mask
        if mask is not None:
            soft = replace(soft, weight=soft.weight * mask.sigmoid())
        before, model.runner = model.runner, soft.bind(self.inside)
        try:
            return model(x, self.member.plan)
        finally:
            model.runner = before


def pairs_of(masked: Masked, explainer: Explainer, x: Tensor, node: int) -> list[tuple[int, int]]:
    """Joined nodes by the larger mask of the edges between them, the largest first."""
    mask = explainer(x, masked.edge_index, index=node).edge_mask
    found: dict[tuple[int, int], float] = {}
    for one, other, value in zip(*masked.edge_index.tolist(), mask.tolist()):
        key = (min(one, other), max(one, other))
        found[key] = max(found.get(key, 0.0), value)
    return sorted((pair for pair in found if found[pair] > 0), key=lambda pair: -found[pair])


def fall(classifier: Any, data: Any, node: int, pairs: list[tuple[int, int]], before: np.ndarray) -> float:
    """By how much the probability of the node's class falls without these edges, either way."""
    src, dst = data.edge_index
    low, high = torch.minimum(src, dst), torch.maximum(src, dst)
    gone = torch.zeros(len(src), dtype=torch.bool)
    for one, other in pairs:
        gone |= (low == min(one, other)) & (high == max(one, other))
    fewer = copy(data)
    fewer.edge_index = data.edge_index[:, ~gone]
    return float(before.max() - classifier.predict_proba(fewer)[node, before.argmax()])


def measure(num_nodes: int, num_edges: int, epochs: int) -> list[dict[str, float]]:
    """For each node the falls and the seconds of both."""
    import gpnn
    from gpnn.explain import explain_node

    data = gpnn.load_dataset("cora")
    classifier = gpnn.GPNNClassifier(recipe="spread", device="cpu", epochs=epochs).fit(data)
    members = list(classifier._explained(data))
    explain_node(members, 0, task=classifier.task_)  # compiles, and keeps the states of the graph as it is
    masked, x = Masked(members[0]).eval(), members[0].data.x
    members[0].model.eval()
    x = x if x.layout == torch.strided else x.to_dense()
    settings = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(masked, GNNExplainer(), "model", edge_mask_type="object", model_config=settings)
    probabilities, rows = classifier.predict_proba(data), []
    for node in np.random.default_rng(0).choice(data.num_nodes, num_nodes, replace=False).tolist():
        began = time.perf_counter()
        ours = [pair[:2] for pair in explain_node(members, node, task=classifier.task_).edges][:num_edges]
        middle = time.perf_counter()
        theirs = pairs_of(masked, explainer, x, node)[: len(ours)]
        ended, before = time.perf_counter(), probabilities[node]
        falls = (fall(classifier, data, node, each, before) for each in (ours, theirs))
        row = dict(zip(("ours", "theirs"), falls)) | {"edges": len(ours), "s": middle - began, "peer_s": ended - middle}
        row["same"] = float({tuple(sorted(pair)) for pair in ours} == set(theirs))
        rows.append(row)
        print(node, row, file=sys.stderr, flush=True)
    return rows


def page(rows: list[dict[str, float]], num_edges: int) -> str:
    more = sum(row["ours"] > row["theirs"] + 1e-6 for row in rows)
    either = sum(abs(row["ours"]) > abs(row["theirs"]) + 1e-6 for row in rows)
    same = sum(abs(row["ours"] - row["theirs"]) <= 1e-6 and row["edges"] > 0 for row in rows)
    share = f"{100 * more / len(rows):.1f} %"
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    command = f"    python benchmarks/explain.py --edges {num_edges} --out FILE"
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, load average {os.getloadavg()[0]:.1f}"
    names = ["nodes", "edges, at most", "more than GNNExplainer", "share", "the same", "less", "either way"]
    names += ["mean fall", "GNNExplainer's", "median s", "GNNExplainer's"]
    values = [len(rows), num_edges, more, share, same, len(rows) - more - same, f"{100 * either / len(rows):.1f} %"]
    values += [f"{np.mean([row[name] for row in rows]):.3f}" for name in ("ours", "theirs")]
    values += [f"{median(row[name] for row in rows):.3f}" for name in ("s", "peer_s")]
    lines = [f"| {' | '.join(names)} |", "|---:" * len(names) + "|", f"| {' | '.join(map(str, values))} |"]
    head = f"# Explanations, checked by deletion\n\n{command}\n\n{about}\n\n"
    return f"{head}Machine: {machine}; torch {torch.__version__}.\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=NUM_NODES)
    parser.add_argument("--edges", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    text = page(measure(options.nodes, options.edges, options.epochs), options.edges)
    print(text)
    if options.out is not None:
        from gpnn.storage.atomic import write_text

        write_text(options.out, text)


if __name__ == "__main__":
    main()
