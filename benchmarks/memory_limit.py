"""Does the default recipe train two million nodes and twenty million edges in 12 GB? Engines and PyG under one limit.

    python benchmarks/memory_limit.py --out benchmarks/results/memory_limit.md

`gpnn train planted` with 128 columns of features (ten words of a node, sparse), with its report, and no setting but
the sizes, the epochs and the engine: a linear cell of 128 channels, four rounds, two passes per epoch. Then
`GPNNClassifier().fit` on the same graph with 128 dense columns, and PyTorch Geometric's `GCN` of four layers and 128
channels over the sparse ones, one pass per epoch. Each contender has a process of its own, whose address space is
limited (RLIMIT_AS): an allocation past it fails. "peak" is the largest resident memory from the start, with
generating, partitioning and lowering the graph; "address space" is the most of what the limit counts. Memory does not
depend on how busy the machine is; seconds do.
"""

import argparse
import io
import json
import os
import resource
import tempfile
import time
from contextlib import redirect_stderr
from pathlib import Path

from process import describe_machine, peak_bytes, run_alone, status

OURS = {"gpnn train": "auto", "gpnn train engine=fused": "fused"}
DENSE = "GPNNClassifier, dense features"
PEERS = {"PyG GCN, CSR": True, "PyG GCN, edge_index": False}
CONTENDERS = (*OURS, DENSE, *PEERS)
SIZES = ("nodes", "degree", "columns", "epochs", "most")


def measure(options: argparse.Namespace) -> dict:
    """One contender's figures; where it runs out of memory, those until then."""
    most = int(options.most * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        figures = train(options)
    except (MemoryError, RuntimeError, ValueError) as error:
        figures = {"failed": str(error).splitlines()[0][:200]}
    return figures | {"peak": peak_bytes(), "address": status("VmPeak")}


def train(options: argparse.Namespace) -> dict:
    if options.contender in OURS:
        return train_command(options, OURS[options.contender])
    return train_dense(options) if options.contender == DENSE else train_peer(options)


def train_command(options: argparse.Namespace, engine: str) -> dict:
    """The command line, in this process."""
    from gpnn.cli import app
    from gpnn.run.folder import RunFolder

    data = ["planted", *(f"data.{name}={value}" for name, value in _planted(options).items())]
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        settings = [f"engine={engine}", f"train.epochs={options.epochs}"]
        said = io.StringIO()
        with redirect_stderr(said):
            code = app(["train", *data, *settings, "--out", str(run.path), "--quiet"], standalone_mode=False)
        if code:
            raise RuntimeError(f"exit code {code}: {' '.join(said.getvalue().split())}")
        history, edges = run.read_history(), run.read_metrics()["num_edges"]
        taken = next(line for line in run.config.read_text().splitlines() if line.startswith("engine"))
        report = run.report.exists()
    return _figures(taken.split('"')[1], history, edges) | {"report": report}


def train_dense(options: argparse.Namespace) -> dict:
    """The estimator, on features that hold a number in every column."""
    import torch

    import gpnn

    data = gpnn.load_dataset("planted", **_planted(options))
    random = torch.Generator().manual_seed(0)
    means = torch.randn(data.num_classes, options.columns, generator=random)
    data.x = torch.randn(options.nodes, options.columns, generator=random)
    for chunk in torch.arange(options.nodes).split(1 << 16):
        data.x[chunk] += 0.3 * means[data.y[chunk]]
    classifier = gpnn.GPNNClassifier(epochs=options.epochs).fit(data)
    runner = classifier.model_.runner
    name = runner if isinstance(runner, str) else type(runner).__name__
    return _figures(name, classifier.history_, data.num_edges)


def train_peer(options: argparse.Namespace) -> dict:
    """PyG's GCN as its examples train it, over the whole graph."""
    import torch
    from torch_geometric.nn import GCN

    import gpnn

    data = gpnn.load_dataset("planted", **_planted(options))
    graph = data.edge_index
    if PEERS[options.contender]:
        ones = torch.ones(data.num_edges)
        graph = torch.sparse_coo_tensor(graph.flip(0), ones, (options.nodes, options.nodes)).to_sparse_csr()
    torch.manual_seed(0)
    net = GCN(options.columns, 128, num_layers=4, out_channels=data.num_classes, dropout=0.5, cached=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    history = []
    for _ in range(options.epochs):
        began = time.perf_counter()
        optimizer.zero_grad()
        logits = net(data.x, graph)
        loss = torch.nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        history.append({"seconds": time.perf_counter() - began, "loss": float(loss)})
    return _figures("full batch", history, data.num_edges)


def _planted(options: argparse.Namespace) -> dict:
    return {"num_nodes": options.nodes, "degree": options.degree, "num_features": options.columns}


def _figures(engine: str, history: list[dict], edges: int) -> dict:
    seconds, losses = ([record[key] for record in history] for key in ("seconds", "loss"))
    return {"engine": engine, "epochs": seconds, "losses": losses, "edges": edges}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--degree", type=float, default=10.0)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--most", type=float, default=12.0, help="GB of address space that a process may have")
    parser.add_argument("--only", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    parser.add_argument("--contender", choices=CONTENDERS, help="measure this one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.contender:
        print(json.dumps(measure(options)))
        return
    head = ("contender", "outcome", "engine", "s per epoch", "peak GB", "address space GB", "losses", "report")
    lines, edges = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"], 0
    for name in options.only:
        settings = [f"--{each}={getattr(options, each)}" for each in SIZES]
        row = run_alone(__file__, [f"--contender={name}", *settings])
        edges = row.get("edges", edges)
        lines.append(_line(name, row))
        print(lines[-1], flush=True)
    if options.out:
        text = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], "", *lines, ""]
        sizes = f"{options.nodes:,} nodes, {edges:,} edges, {options.columns} columns, {options.epochs} epochs"
        text.append(f"{sizes}; at most {options.most:g} GB of address space. Machine: {describe_machine()};")
        threads = os.getenv("OMP_NUM_THREADS", "not set")
        text.append(f"OMP_NUM_THREADS {threads}, load average {os.getloadavg()[0]:.1f} at the end.")
        options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


def _line(name: str, row: dict) -> str:
    memory = [f"{row[key] / 1e9:.2f}" if key in row else "" for key in ("peak", "address")]
    if "failed" in row:
        return f"| {name} | {row['failed']} | | | {' | '.join(memory)} | | |"
    losses = ", ".join(f"{loss:.4f}" for loss in row["losses"])
    seconds, report = f"{min(row['epochs']):.1f}", "written" if row.get("report") else ""
    return f"| {name} | trained | {row['engine']} | {seconds} | {' | '.join(memory)} | {losses} | {report} |"


if __name__ == "__main__":
    main()
