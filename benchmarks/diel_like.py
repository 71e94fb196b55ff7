"""Train on a graph of DIEL's full size on this machine: 4,373,008 nodes, 1,233,598 sparse feature columns.

    python benchmarks/diel_like.py --out benchmarks/results/diel_like.md

d = 64, three rounds of the gated unit over ten subgraphs, exact gradients, Adam; PyTorch Geometric's
`GatedGraphConv` of three layers over the same sparse features beside it. Each contender has a process of its own;
"peak" is its largest resident memory from the start, with generating the data, partitioning and lowering it, and
"in training" that of the epochs alone. A contender whose memory would pass `--most` GB is stopped by the system.
"""

import argparse
import json
import resource
import time
from pathlib import Path

from process import cpu_seconds, describe_machine, peak_bytes, reset_peak, run_alone

CONTENDERS = ("ours, streamed", "ours, streamed, bf16 boundaries", "ours, fused", "PyG GatedGraphConv, edge_index")


def load(options: argparse.Namespace):
    import gpnn

    return gpnn.load_dataset("diel_like", scale=options.scale)


def train_ours(options: argparse.Namespace) -> dict[str, float]:
    """Seconds and memory of partition, lowering and epochs."""
    import torch

    import gpnn
    from gpnn.engine import Streamed
    from gpnn.train import Recipe, fit

    began = time.perf_counter()
    data = load(options)
    loaded = time.perf_counter()
    part = gpnn.partition_graph(data, 10)
    divided = time.perf_counter()
    schedule = gpnn.schedule.partitioned(data, part, rounds=3)
    plan = gpnn.lower(data, schedule)
    del part
    stored = torch.bfloat16 if "bf16" in options.contender else None
    runner = "fused" if "fused" in options.contender else Streamed(stored)
    model = gpnn.nn.GPNN(data.num_features, 64, data.num_classes, num_rounds=3, runner=runner, concat="none")
    setup, ready = peak_bytes(), time.perf_counter()
    reset_peak()
    cpu = cpu_seconds()
    result = fit(model, data, plan, recipe=Recipe(epochs=options.epochs, check_every=options.epochs, patience=0))
    seconds = [record["seconds"] for record in result.history]
    losses = [record["loss"] for record in result.history]
    return {
        **{"load": loaded - began, "partition": divided - loaded, "lower": ready - divided},
        **{"epoch": min(seconds), "cpu": (cpu_seconds() - cpu) / options.epochs, "losses": losses},
        **{"setup_peak": setup, "train_peak": peak_bytes(), "accuracy": result.metrics.get("val_accuracy")},
    }


def train_peer(options: argparse.Namespace) -> dict[str, float]:
    import torch
    from torch_geometric.nn import GatedGraphConv

    began = time.perf_counter()
    data = load(options)
    loaded = time.perf_counter()
    torch.manual_seed(0)
    encode, head = torch.nn.Parameter(torch.randn(data.num_features, 64) / 64), torch.nn.Linear(64, data.num_classes)
    conv = GatedGraphConv(64, num_layers=3, aggr="mean")
    optimizer = torch.optim.Adam([encode, *head.parameters(), *conv.parameters()], lr=0.01)
    setup = peak_bytes()
    reset_peak()
    cpu, seconds, losses = cpu_seconds(), [], []
    for _ in range(options.epochs):
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = head(conv(torch.sparse.mm(data.x, encode), data.edge_index))
        loss = torch.nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
    return {
        **{"load": loaded - began, "partition": 0, "lower": 0, "epoch": min(seconds), "losses": losses},
        **{"cpu": (cpu_seconds() - cpu) / options.epochs, "setup_peak": setup, "train_peak": peak_bytes()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--most", type=float, default=16.0, help="GiB that a contender may map beyond libraries")
    parser.add_argument("--only", nargs="+", default=(CONTENDERS[0], CONTENDERS[-1]), choices=CONTENDERS)
    parser.add_argument("--contender", choices=CONTENDERS, help="measure this one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.contender:
        most = int(options.most * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # anonymous memory: past it an allocation fails
        train = train_peer if options.contender.startswith("PyG") else train_ours
        print(json.dumps(train(options)))
        return
    head = (
        "contender",
        "epoch s",
        "CPU s per epoch",
        "load s",
        "partition s",
        "lower s",
        "peak GB",
        "in training GB",
    )
    lines = [f"| {' | '.join((*head, 'losses'))} |", "|---" * (len(head) + 1) + "|"]
    for name in options.only:
        settings = [f"--scale={options.scale}", f"--epochs={options.epochs}", f"--most={options.most}"]
        lines.append(_line(name, run_alone(__file__, [f"--contender={name}", *settings])))
        print(lines[-1], flush=True)
    if options.out:
        text = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], "", *lines, ""]
        text.append(f"Scale {options.scale:g}; at most {options.most:g} GiB a process. Machine: {describe_machine()}.")
        options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


def _line(name: str, row: dict) -> str:
    if "failed" in row:
        return f"| {name} | {row['failed']} |" + " |" * 7
    measured = [f"{row[key]:.1f}" for key in ("epoch", "cpu", "load", "partition", "lower")]
    measured += [f"{max(row['setup_peak'], row['train_peak']) / 1e9:.2f}", f"{row['train_peak'] / 1e9:.2f}"]
    return f"| {name} | {' | '.join(measured)} | {', '.join(f'{loss:.4f}' for loss in row['losses'])} |"


if __name__ == "__main__":
    main()
