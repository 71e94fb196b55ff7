"""Seconds per epoch of a two-layer GCN on the CPU: ours, PyTorch Geometric's, and Cluster-GCN's way of training.

    python benchmarks/gcn.py --out benchmarks/results/gcn.md

The large graph is planted, with dense features; an epoch is forward, backward and Adam over all nodes. "Cluster-GCN"
trains PyG's model on induced subgraphs of ten parts at a time, as `ClusterLoader` does, edges between batches dropped;
preparing them is timed apart. The small one has Cora's sizes and sparse features: 200 epochs, with and without a
validation after each; ours by `gpnn.train.fit`, one thread each. Each contender has a process of its own, and they take
turns. "Of PyG's" is a contender's time over that of the first in the same turn, and the least and the most of it.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median

from process import describe_machine, run_alone, time_steps

LARGE = ("PyG, CSR", "PyG, Cluster-GCN", "ours, synchronous", "ours, partitioned")
SMALL = ("PyG, sparse features", "PyG, dense features", "ours, synchronous", "ours, partitioned")
CORA = {"nodes": 2708, "degree": 4, "features": 1433, "hidden": 16, "classes": 7, "parts": 10}


def planted(options: argparse.Namespace):
    """Edges both ways `[2, E]`, community and class of each node, nodes in random order."""
    import torch

    random = torch.Generator().manual_seed(0)
    num_nodes, count = options.nodes, options.nodes * options.degree // 2
    size = max(1, num_nodes // options.parts)
    src = torch.randint(num_nodes, (count,), generator=random)
    inside = (src // size * size + torch.randint(size, (count,), generator=random)).clamp(max=num_nodes - 1)
    dst = torch.where(torch.rand(count, generator=random) < 0.1, torch.randint(num_nodes, (count,)), inside)
    name = torch.randperm(num_nodes, generator=random)
    community = torch.empty(num_nodes, dtype=torch.int64)
    community[name] = (torch.arange(num_nodes) // size).clamp(max=options.parts - 1)
    src, dst = name[src], name[dst]
    return torch.stack([torch.cat([src, dst]), torch.cat([dst, src])]), community, community % options.classes


def make_data(options: argparse.Namespace, *, sparse: bool):
    """PyG's Data, a tenth of the nodes to train on and as many to validate, and the communities."""
    import torch
    from torch_geometric.data import Data

    edges, community, y = planted(options)
    random = torch.Generator().manual_seed(1)
    x = torch.rand(options.nodes, options.features, generator=random)
    if sparse:
        x = (x < 0.0127).float()
    share = torch.rand(options.nodes, generator=random)
    masks = {"train_mask": share < 0.1, "val_mask": (share > 0.1) & (share < 0.2), "test_mask": share > 0.2}
    return Data(x=x, y=y, edge_index=edges, num_classes=options.classes, **masks), community


def peer(options: argparse.Namespace):
    """PyG's two layers, and Adam."""
    import torch
    from torch_geometric.nn import GCNConv

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GCNConv(options.features, options.hidden, cached=not options.clusters)
            self.second = GCNConv(options.hidden, options.classes, cached=not options.clusters)

        def forward(self, x, graph):
            hidden = torch.relu(self.first(x, graph))
            return self.second(torch.nn.functional.dropout(hidden, 0.5, self.training), graph)

    torch.manual_seed(0)
    net = Net()
    return net, torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)


def peer_epoch(net, optimizer, x, graph, y, mask) -> None:
    import torch

    net.train()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x, graph)[mask], y[mask]).backward()
    optimizer.step()


def our_plan(data, community, name: str):
    import gpnn

    if "partitioned" in name:
        schedule = gpnn.schedule.partitioned(data, community, rounds=1)
        return gpnn.lower(data, schedule, "cpu", "symmetric_split", self_loops=True)
    return gpnn.lower(data, gpnn.schedule.synchronous(data, 1), "cpu", "symmetric", self_loops=True)


def our_model(options: argparse.Namespace, input_dropout: float):
    from experiments.baselines.graph_convolution import GraphConvolution

    model = GraphConvolution(options.features, options.hidden, options.classes, dropout=0.5)
    forward = model.encoder.forward
    model.encoder.forward = lambda x, p, key, layer: forward(x, input_dropout, key, layer)  # the peers drop none
    return model


def measure_large(options: argparse.Namespace) -> dict[str, float]:
    """Seconds and memory of an epoch, and the seconds of preparing it."""
    import torch

    data, community = make_data(options, sparse=False)
    began, name = time.perf_counter(), options.contender
    options.clusters = "Cluster" in name
    if name.startswith("ours"):
        from gpnn.nn import MaskKey

        plan, model = our_plan(data, community, name), our_model(options, 0.0)
        model(data.x, plan)  # builds what the plan keeps
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

        def epoch() -> None:
            optimizer.zero_grad()
            logits = model(data.x, plan, MaskKey(0))
            torch.nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask]).backward()
            optimizer.step()

    elif options.clusters:
        from torch_geometric.utils import subgraph

        batches = []
        for first in range(0, options.parts, 10):
            nodes = ((community >= first) & (community < first + 10)).nonzero().flatten()
            edges, _ = subgraph(nodes, data.edge_index, relabel_nodes=True, num_nodes=options.nodes)
            batches.append((data.x[nodes], edges, data.y[nodes], data.train_mask[nodes]))
        net, optimizer = peer(options)

        def epoch() -> None:
            for batch in batches:
                peer_epoch(net, optimizer, *batch)

    else:
        ones = torch.ones(data.num_edges)
        graph = torch.sparse_coo_tensor(data.edge_index.flip(0), ones, (options.nodes, options.nodes)).to_sparse_csr()
        net, optimizer = peer(options)

        def epoch() -> None:
            peer_epoch(net, optimizer, data.x, graph, data.y, data.train_mask)

        epoch()  # normalises once: the layers keep it
    prepared = time.perf_counter() - began
    return time_steps(epoch, options.repeats) | {"prepared": prepared}


def our_training(options: argparse.Namespace, data, community, every: int):
    """200 epochs of ours, as a function."""
    from gpnn.train import Recipe, fit

    plan = our_plan(data, community, options.contender)
    recipe = Recipe(epochs=200, patience=0, clip=0.0, decay_on="all", check_every=every)
    return lambda: fit(our_model(options, 0.0), data, plan, recipe=recipe)


def peer_training(options: argparse.Namespace, data, every: int):
    """200 epochs of PyG's, as a function."""
    import torch

    x = data.x if "dense" in options.contender else data.x.to_sparse_csr()

    def train() -> None:
        net, optimizer = peer(options)
        for epoch in range(1, 201):
            peer_epoch(net, optimizer, x, data.edge_index, data.y, data.train_mask)
            if epoch % every == 0:
                net.eval()
                with torch.no_grad():
                    probability = net(x, data.edge_index)[data.val_mask]
                    float((probability.argmax(1) == data.y[data.val_mask]).float().mean())

    return train


def measure_small(options: argparse.Namespace) -> dict[str, float]:
    """Seconds of 200 epochs, with a validation after each and without."""
    import torch

    torch.set_num_threads(1)
    data, community = make_data(options, sparse=True)
    options.clusters = False
    metrics: dict[str, float] = {}
    for label, every in {"checked": 1, "unchecked": 200}.items():
        ours = options.contender.startswith("ours")
        train = our_training(options, data, community, every) if ours else peer_training(options, data, every)
        train()
        row = time_steps(train, options.repeats)
        metrics |= {f"{label}_wall": row["wall"], f"{label}_cpu": row["cpu"]}
    return metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"nodes": 1_000_000, "degree": 10, "features": 100, "hidden": 128, "classes": 10, "parts": 100}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3, help="times to go round the contenders, medians over them")
    parser.add_argument("--size", choices=("large", "small"))
    parser.add_argument("--contender", help="measure this one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.contender:
        measure = measure_large if options.size == "large" else measure_small
        print(json.dumps(measure(options)))
        return
    large = {name: getattr(options, name) for name in sizes}
    lines = ["", f"## {options.nodes:,} nodes, degree {options.degree}, {options.features} features, d = "]
    lines[-1] += f"{options.hidden}"
    columns = {"wall": "epoch s", "cpu": "CPU s", "prepared": "prepared in s", "peak": "peak GB"}
    lines += ["", *_table(LARGE, "large", large, options, columns)]
    columns = {"checked_wall": "with validation, s", "checked_cpu": "CPU s"}
    columns |= {"unchecked_wall": "without, s", "unchecked_cpu": "CPU s"}
    lines += ["", "## Cora's sizes, 200 epochs", "", *_table(SMALL, "small", CORA, options, columns)]
    if options.out:
        text = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], *lines, ""]
        text.append(f"Medians of {options.repeats}, and of {options.turns} turns. Machine: {describe_machine()}.")
        options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


def _table(names, size: str, sizes: dict[str, int], options: argparse.Namespace, columns: dict[str, str]) -> list[str]:
    settings = [f"--size={size}", f"--repeats={options.repeats}", *(f"--{key}={value}" for key, value in sizes.items())]
    rows = {name: [] for name in names}
    for _ in range(options.turns):
        for name in names:
            rows[name].append(run_alone(__file__, [*settings, f"--contender={name}"]))
    heads = [f"{head} | of PyG's" if "wall" in key else head for key, head in columns.items()]
    lines = [f"| contender | {' | '.join(heads)} |"]
    lines.append("|---" * lines[0].count(" | ") + "|---|")
    for name in names:
        lines.append(f"| {name} | {' | '.join(_metrics(rows[name], rows[names[0]], columns))} |")
    print("\n".join(lines), flush=True)
    return lines


def _metrics(turns, first, columns: dict[str, str]) -> list[str]:
    """Medians over the turns; ratios to the first contender's are taken turn by turn."""
    failed = next((row["failed"] for row in turns if "failed" in row), None)
    if failed:
        return [failed]
    metrics = []
    for key in columns:
        metrics.append(f"{median(row[key] for row in turns) / (1e9 if key == 'peak' else 1):.2f}")
        if "wall" in key:
            ratios = [row[key] / theirs[key] for row, theirs in zip(turns, first) if key in theirs]
            metrics.append(f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "")
    return metrics


if __name__ == "__main__":
    main()
