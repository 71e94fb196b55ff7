"""Is the memory that `engine="auto"` estimates near what a training takes? Estimated and measured peaks.

    python benchmarks/estimate.py --out benchmarks/results/estimate.md
    python benchmarks/estimate.py --device cuda --scale 2 --out benchmarks/results/estimate_gpu.md
    python benchmarks/estimate.py --device cuda --graphs rmat --sites 30     # and where the peak was allocated

Each line is a process of its own that makes a graph, estimates, and then trains two epochs with validation by
`gpnn.train.fit`; "measured" is its largest resident memory from the estimate on, and on a GPU the most that its tensors
take there. The estimate sees no part of the plan built and no pass done. "band" is a graph in memory whose nodes have
eight neighbours near them; "planted" (communities) and "rmat" (skewed degrees, no communities) are in CSR form and go
through the assembly of `gpnn train`, with 16 subgraphs, 15 edges per node and one label in eighty nodes.
"""

import argparse
import json
import os
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from process import describe_gpu, describe_machine, peak_bytes, reset_peak, run_alone

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


class Case(NamedTuple):
    graph: str
    cell: str
    engine: str
    schedule: str
    nodes: int
    channels: int
    passes: int = 1
    features: int = 0  # 0: 32 of a band, as many as channels of the others


BAND = [
    Case("band", "gru", "fused", "partitioned", 200_000, 64),
    Case("band", "gru", "streamed", "partitioned", 200_000, 64),
    Case("band", "gru", "fused", "synchronous", 400_000, 64),
    Case("band", "gru", "streamed_bf16", "partitioned", 400_000, 64),
    Case("band", "gru", "streamed_disk", "partitioned", 400_000, 64),
    Case("band", "lstm", "fused", "partitioned", 100_000, 64),
    Case("band", "lstm", "streamed", "partitioned", 100_000, 64),
    Case("band", "mlp", "fused", "synchronous", 200_000, 64),
    Case("band", "gcnii", "fused", "partitioned", 200_000, 64),
    Case("band", "linear", "fused", "partitioned", 400_000, 128, 2),
    Case("band", "linear", "streamed", "partitioned", 400_000, 128, 2),
]
ROWS = {  # over graphs in CSR form
    "cpu": [
        ("gru", "fused", "partitioned", 200_000, 64),
        ("gru", "streamed_phases", "partitioned", 200_000, 64),
        ("gru", "streamed", "partitioned", 200_000, 64),
        ("gru", "streamed", "synchronous", 200_000, 64),
        ("gru", "streamed", "held_cut", 200_000, 64),
        ("gru", "streamed_disk", "synchronous", 200_000, 64),
        ("residual", "streamed", "synchronous", 200_000, 64),
    ],
    "cuda": [
        ("gru", "fused", "partitioned", 4_000_000, 128),
        ("gru", "streamed", "partitioned", 4_000_000, 128),
        ("gru", "streamed", "synchronous", 4_000_000, 128),
        ("gru", "streamed", "held_cut", 4_000_000, 128),
        ("gru", "streamed_features", "synchronous", 4_000_000, 128),
        ("gru", "streamed_host", "synchronous", 4_000_000, 128),
        ("residual", "streamed_features", "synchronous", 2_500_000, 256, 1, 1024),
    ],
}
EDGES, PARTS = 15, 16  # per node; subgraphs


def cases(device: str) -> list[Case]:
    """All of a device, in the order of their numbers."""
    beside = [Case("band", "gru", "streamed_host", "partitioned", 400_000, 64)] if device == "cuda" else []
    return [*BAND, *beside, *(Case(graph, *each) for graph in ("planted", "rmat") for each in ROWS[device])]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    case = cases(options.device)[options.case]
    return measure_band(options, case) if case.graph == "band" else measure_rows(options, case)


def measure_rows(options: argparse.Namespace, case: Case) -> dict[str, Any]:
    """A case over a graph in CSR form."""
    import tempfile

    import torch
    from gpu_task import assemble, prepare, recipe_of

    from gpnn.train import fit

    num_nodes, gpu = int(case.nodes * options.scale), options.device == "cuda"
    width = case.features or case.channels
    task = prepare(num_nodes, EDGES * num_nodes, width=width, device=options.device, graph=case.graph)
    sharing = {"sharing": "round"} if case.cell == "residual" else {}
    network = {"cell": case.cell, "concat": "none", **sharing}
    recipe = recipe_of(2)
    if options.sites:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        made = assemble(
            task,
            PARTS,
            case.schedule,
            recipe,
            model_options=network,
            hidden_channels=case.channels,
            engine=case.engine,
            disk=folder if case.engine == "streamed_disk" else None,
        )
        assert made.engine is not None
        if gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            built = torch.cuda.memory_allocated()
        else:
            built = reset_peak()
        peaks = _Peaks(options.device)
        fit(made.model, made.data, made.plan, recipe=recipe, callbacks=[peaks])
        found = made.engine.estimate
        return {
            "estimate": found.peak,
            "measured": peaks.now(),
            "resident": found.resident,
            "built": built,
            "epochs": peaks.epochs,
            "host": peak_bytes(),
            "parts": asdict(found),
            "sites": largest_sites(options.sites) if options.sites else [],
        }


class _Peaks:
    """The peak after each epoch; the last comes before all nodes are scored."""

    def __init__(self, device: str) -> None:
        self.device, self.epochs = device, []

    def start(self, history: list[dict[str, Any]]) -> None: ...

    def epoch(self, record: dict[str, Any]) -> None:
        self.epochs.append(self.now())

    def now(self) -> int:
        import torch

        return torch.cuda.max_memory_allocated() if self.device == "cuda" else peak_bytes()


def largest_sites(count: int) -> list[tuple[str, float]]:
    """The lines of the library whose tensors took most of a GPU at its peak, with GB."""
    import torch

    events = torch.cuda.memory._snapshot()["device_traces"][0]
    total, most, when = 0, 0, 0
    for number, event in enumerate(events):
        total += event["size"] * ((event["action"] == "alloc") - (event["action"] == "free_completed"))
        if total > most:
            most, when = total, number
    live: dict[int, tuple[str, int]] = {}
    for event in events[: when + 1]:
        if event["action"] == "alloc":
            frames = [each for each in event["frames"] if "/gpnn/" in each["filename"]][:3]
            words = (f"{each['filename'].rsplit('/', 1)[-1]}:{each['line']} {each['name']}" for each in frames)
            live[event["addr"]] = " < ".join(words), event["size"]
        elif event["action"] == "free_completed":
            live.pop(event["addr"], None)
    sizes: Counter[str] = Counter()
    for site, size in live.values():
        sizes[site] += size
    return [(site, round(size / 1e9, 3)) for site, size in sizes.most_common(count)]


def measure_band(options: argparse.Namespace, case: Case) -> dict[str, Any]:
    """A case over a list of edges."""
    import tempfile

    import torch
    from torch_geometric.data import Data

    import gpnn
    from gpnn.memory.engine import choose_engine
    from gpnn.pipeline import resolve_options
    from gpnn.train import Recipe, fit

    _, cell, engine, name, num_nodes, width, passes, _ = case
    num_nodes = int(num_nodes * options.scale)
    random = torch.Generator().manual_seed(0)
    src = torch.randint(num_nodes, (4 * num_nodes,), generator=random)
    dst = (src + torch.randint(-50, 50, src.shape, generator=random)) % num_nodes
    share = torch.rand(num_nodes, generator=random)
    data = Data(
        x=torch.randn(num_nodes, 32, generator=random),
        y=torch.randint(4, (num_nodes,), generator=random),
        edge_index=torch.stack([torch.cat([src, dst]), torch.cat([dst, src])]),
        train_mask=share < 0.1,
        val_mask=(share > 0.1) & (share < 0.2),
        test_mask=share > 0.8,
        num_classes=4,
    )
    if name == "partitioned":
        schedule = gpnn.schedule.partitioned(data, torch.arange(num_nodes) * 20 // num_nodes, rounds=3, intra=2)
    else:
        schedule = gpnn.schedule.synchronous(data, 3)
    plan = gpnn.lower(data, schedule, options.device)
    settings = resolve_options({"cell": cell}, has_features=True)
    model = gpnn.nn.GPNN(32, width, 4, num_rounds=3, dropout=0.2, input_dropout=0.5, **settings).to(options.device)
    recipe = Recipe(epochs=2, passes=passes, consistency=1.0 if passes > 1 else 0.0)
    with tempfile.TemporaryDirectory() as folder:
        choice = choose_engine(model, data.x, plan, recipe, engine=engine, folder=folder)
        model.runner = choice.runner
        reset_peak()
        fit(model, data, plan, recipe=recipe)
        measured = peak_bytes() if options.device == "cpu" else torch.cuda.max_memory_allocated()
        return {"estimate": choice.estimate.peak, "measured": measured, "resident": choice.estimate.resident}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of nodes")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--case", type=int, help="measure this one")
    parser.add_argument("--graphs", default="band,planted,rmat", help="some of band, planted, rmat")
    parser.add_argument(
        "--sites", type=int, default=0, help="on a GPU, how many lines that allocated the peak to print"
    )
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(measure(options)))
        return
    heads = ("graph", "cell", "engine", "schedule", "nodes", "d", "passes", "before GB", "estimate GB", "measured GB")
    lines = [f"| {' | '.join(heads)} | ratio |", "|---" * (len(heads) + 1) + "|"]
    records = []
    for number, case in enumerate(cases(options.device)):
        if case.graph not in options.graphs.split(","):
            continue
        given = [
            f"--case={number}",
            f"--scale={options.scale}",
            f"--device={options.device}",
            f"--sites={options.sites}",
        ]
        row = run_alone(__file__, given)
        records.append({**case._asdict(), **row})
        words = " | ".join(f"{each:,}" if isinstance(each, int) else each for each in case[:-1])
        if "failed" in row:
            lines.append(f"| {words} | | | | {row['failed']} |")
        else:
            metrics = (row["resident"] / 1e9, row["estimate"] / 1e9, row["measured"] / 1e9)
            ratio = row["estimate"] / row["measured"]
            lines.append(f"| {words} | {' | '.join(f'{each:.2f}' for each in metrics)} | {ratio:.2f} |")
        print(lines[-1], flush=True)
        if options.json:
            options.json.write_text(json.dumps(records, indent=1) + "\n")
    if options.out:
        text = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], "", *lines, ""]
        machine = describe_machine() if options.device == "cpu" else describe_gpu()
        text.append(f"Numbers of nodes times {options.scale:g}. Machine: {machine}.")
        options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
