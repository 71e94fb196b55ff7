"""Is the memory that `engine="auto"` estimates near what a training takes? Estimated and measured peaks.

    python benchmarks/estimate.py --out benchmarks/results/estimate.md
    python benchmarks/estimate.py --device cuda --scale 2 --out benchmarks/results/estimate_gpu.md

Each line is a process of its own that makes a graph, estimates, and then trains two epochs with validation by
`gpnn.train.fit`; "measured" is its largest resident memory from the estimate on, and on a GPU the most that its tensors
take there. The estimate sees no part of the plan built and no pass done.
"""

import argparse
import json
from pathlib import Path

from process import describe_gpu, describe_machine, peak_bytes, reset_peak, run_alone

CASES = [  # cell, runner, schedule, nodes, channels, passes
    ("gru", "fused", "partitioned", 200_000, 64, 1),
    ("gru", "streamed", "partitioned", 200_000, 64, 1),
    ("gru", "fused", "synchronous", 400_000, 64, 1),
    ("gru", "streamed_bf16", "partitioned", 400_000, 64, 1),
    ("gru", "streamed_disk", "partitioned", 400_000, 64, 1),
    ("lstm", "fused", "partitioned", 100_000, 64, 1),
    ("lstm", "streamed", "partitioned", 100_000, 64, 1),
    ("mlp", "fused", "synchronous", 200_000, 64, 1),
    ("gcnii", "fused", "partitioned", 200_000, 64, 1),
    ("linear", "fused", "partitioned", 400_000, 128, 2),
    ("linear", "streamed", "partitioned", 400_000, 128, 2),
]
GPU_CASES = [*CASES, ("gru", "streamed_host", "partitioned", 400_000, 64, 1)]


def measure(options: argparse.Namespace) -> dict[str, float]:
    import tempfile

    import torch
    from torch_geometric.data import Data

    import gpnn
    from gpnn.memory.engine import choose_engine
    from gpnn.pipeline import resolve_options
    from gpnn.train import Recipe, fit

    cell, engine, name, num_nodes, width, passes = GPU_CASES[options.case]
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
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(measure(options)))
        return
    heads = ("cell", "engine", "schedule", "nodes", "d", "passes", "before GB", "estimate GB", "measured GB", "ratio")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for number, case in enumerate(CASES if options.device == "cpu" else GPU_CASES):
        row = run_alone(__file__, [f"--case={number}", f"--scale={options.scale}", f"--device={options.device}"])
        words = " | ".join(f"{each:,}" if isinstance(each, int) else each for each in case)
        if "failed" in row:
            lines.append(f"| {words} | | | | {row['failed']} |")
        else:
            metrics = (row["resident"] / 1e9, row["estimate"] / 1e9, row["measured"] / 1e9)
            ratio = row["estimate"] / row["measured"]
            lines.append(f"| {words} | {' | '.join(f'{each:.2f}' for each in metrics)} | {ratio:.2f} |")
        print(lines[-1], flush=True)
    if options.out:
        text = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:], "", *lines, ""]
        machine = describe_machine() if options.device == "cpu" else describe_gpu()
        text.append(f"Numbers of nodes times {options.scale:g}. Machine: {machine}.")
        options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
