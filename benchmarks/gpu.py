"""Exact training on one GPU: kernels beside their peers, ten rounds, the sizes between, and a graph of 111M nodes.

    python benchmarks/gpu.py all --json FILE          # everything, in under ten minutes on one H200
    python benchmarks/gpu.py check step rounds sizes record --json FILE     # or parts of it
    python benchmarks/gpu.py table --json FILE --out benchmarks/results/gpu.md

With `--graph rmat` those of the largest graphs take one of skewed degrees; it stands beside the planted one.
Every part starts a process of its own, so that one part's memory is not the next one's. `check` compares gradients with
a float64 oracle on the CPU first; a failed check stops the run. Results add to the file, `table` prints all of it.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # states are large, blocks are not

PARTS = (
    *("check", "step", "convolutions", "profile", "rounds", "pyg_rounds", "sizes", "held_sizes"),
    *("record", "synchronous", "held_cut", "cells", "held_capped", "rmat", "rmat_large", "capped"),
    *("wide_check", "eight_bit", "full"),
)
LIMITS = {"float32": 1e-5, "bf16": 3e-2}  # relative errors that a check allows


def main() -> None:
    options = _arguments()
    parts = PARTS if "all" in options.parts else options.parts
    for part in parts:
        if part == "table":
            from gpu_table import write

            write(json.loads(options.json.read_text()), options.out)
        elif options.inside:
            name = part if options.graph == "planted" else f"{part} {options.graph}"
            _save(options.json, name, globals()[part](options))
        else:
            command = [sys.executable, __file__, part, "--inside", *sys.argv[1 + len(options.parts) :]]
            subprocess.run(command, check=True)
    if "table" not in parts and not options.inside:
        from gpu_table import table

        print(table(json.loads(options.json.read_text())))


def check(options: argparse.Namespace) -> dict[str, object]:
    """Gradients of a scaled-down copy against the oracle."""
    import torch
    from gpu_check import check as compare
    from process import describe_gpu

    torch.set_float32_matmul_precision("highest")
    errors = compare("cuda", num_nodes=20_000)
    for name, value in errors.items():
        print(f"  {name}: {value:.1e}", flush=True)
        if not value < LIMITS[name.rsplit(", ")[-1]]:
            raise SystemExit(f"The check failed: {name} is {value:.1e}.")
    return {**errors, "machine": describe_gpu()}


def step(options: argparse.Namespace) -> dict[str, object]:
    """One step forward and backward beside its peers, and the rate of a copy."""
    import torch
    from gpu_step import compare_steps, floor_ms

    source = torch.empty(1 << 30, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    target.copy_(source)
    begin.record()
    for _ in range(10):
        target.copy_(source)
    end.record()
    end.synchronize()
    rate = 80 * 2**30 / begin.elapsed_time(end) / 1e9
    del source, target
    nodes, edges, width = 1_000_000, 10_000_000, 128
    rows = compare_steps(nodes, edges, width)
    return {"copy TB/s": round(rate, 2), "floor ms": round(floor_ms(nodes, edges, width, rate), 2), "rows": rows}


def convolutions(options: argparse.Namespace) -> dict[str, object]:
    """One step of convolutions beside their peers."""
    from gpu_step import bare_step, compare_convolutions, kernel_times

    sizes = 1_000_000, 10_000_000, 128
    return {"kernels": kernel_times(bare_step(*sizes, "residual"), times=20), "rows": compare_convolutions(*sizes)}


def bare(options: argparse.Namespace) -> dict[str, object]:
    """Our bf16 step alone, and where its time goes."""
    from gpu_step import bare_step, kernel_times, milliseconds

    once = bare_step(1_000_000, 10_000_000, 128)
    return {"ms": [milliseconds(once) for _ in range(3)], "rows": kernel_times(once, times=20)}


def tune(options: argparse.Namespace) -> dict[str, object]:
    """The kernels of a step by the size of their tiles."""
    from gpu_step import tune_gates

    return {"rows": tune_gates(1_000_000, 128)}


def rounds(options: argparse.Namespace) -> dict[str, object]:
    """Ten rounds over 10M nodes and 100M edges: our partition schedule, our synchronous one."""
    names = {"partition schedule": "partitioned", "synchronous": "synchronous"}
    sizes = (10_000_000, 100_000_000, 16)
    return {"rows": [{"schedule": name, **train(*sizes, kind, epochs=4, rounds=10)} for name, kind in names.items()]}


def pyg_rounds(options: argparse.Namespace) -> dict[str, object]:
    """PyG's GatedGraphConv on the same size, with as many layers as memory takes."""
    import torch
    from gpu_graph import planted
    from gpu_task import gib, now
    from torch_geometric.nn import GatedGraphConv

    graph = planted(10_000_000, 100_000_000, "cuda")
    row = torch.repeat_interleave(torch.arange(10_000_000, device="cuda"), graph.ptr.diff())
    edge_index = torch.stack([graph.col.long(), row])
    del graph, row
    torch.set_float32_matmul_precision("high")
    rows = []
    for layers in (1, 2):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        try:
            conv = GatedGraphConv(128, num_layers=layers, aggr="mean").cuda()
            x = torch.randn(10_000_000, 128, device="cuda", requires_grad=True)
            began = now()
            conv(x, edge_index).sum().backward()
            rows.append({"layers": layers, "seconds": round(now() - began, 3)})
        except torch.cuda.OutOfMemoryError:
            rows.append({"layers": layers, "seconds": "out of memory"})
        rows[-1]["GiB"] = gib(torch.cuda.max_memory_allocated())
        conv = x = None
        print(rows[-1], flush=True)
    return {"rows": rows}


def profile(options: argparse.Namespace) -> dict[str, object]:
    """Where the time of a step goes, by kernel, at 1M nodes, and that of a pass there and back at 16M."""
    import torch
    from gpu_step import bare_step, kernel_times
    from gpu_task import assemble, one_pass, prepare, recipe_of

    torch.set_float32_matmul_precision("high")
    found = {"step": kernel_times(bare_step(1_000_000, 10_000_000, 128), times=20)}
    task = prepare(16_000_000, 232_800_000, width=128, device="cuda")
    for name in ("synchronous", "held_cut"):
        made = assemble(task, 28, name, recipe_of(1), engine="streamed")
        found[name] = kernel_times(one_pass(made), times=2)
        del made
    return found


def sizes(options: argparse.Namespace) -> dict[str, object]:
    """The record's work on smaller graphs of the same kind."""
    millions = (1, 4, 16, 64)
    return {"rows": [train(n * 10**6, n * 14_550_000, max(2, n * 2), "partitioned", epochs=4) for n in millions]}


def held_sizes(options: argparse.Namespace) -> dict[str, object]:
    """Three steps with the cut held, 16M nodes, by the number of subgraphs, down to those that fit the L2 cache."""
    sizes = ((16_000_000, 232_800_000, k, "held_cut") for k in (28, 56, 112))
    return {"rows": [train(*each, epochs=5, graph=options.graph) for each in sizes]}


HOST = 112e9  # bytes that a training may take of a host of 126 GiB, of which others take little


def record(options: argparse.Namespace) -> dict[str, object]:
    """111,059,956 nodes and about 1.6 billion edges, as ogbn-papers100M."""
    return _large(options, "partitioned")


def synchronous(options: argparse.Namespace) -> dict[str, object]:
    """The record's graph under the synchronous schedule, with the same kernels and the same streaming."""
    return _large(options, "synchronous")


def held_cut(options: argparse.Namespace) -> dict[str, object]:
    """The record's graph with the cut held: three steps in one round."""
    return _large(options, "held_cut")


def cells(options: argparse.Namespace) -> dict[str, object]:
    """The same with convolutions, and with the linear cell, in the place of the gated unit."""
    variants = tuple({"model_options": {"cell": name, "concat": "none"}} for name in options.cells.split(","))
    sizes, facts = (options.nodes, options.edges, options.k or "auto", ("held_cut",)), {"memory": HOST}
    return {"rows": train_each(*sizes, epochs=options.epochs, graph=options.graph, variants=variants, **facts)}


def _large(options: argparse.Namespace, name: str) -> dict[str, object]:
    sizes = options.nodes, options.edges, options.k or 192, name
    return train(*sizes, epochs=options.epochs, engine=options.engine, graph=options.graph, memory=HOST)


def full(options: argparse.Namespace) -> dict[str, object]:
    """269M nodes and 4.0 billion edges, as IGB-full, the cut held; `--eight`: features in whole numbers of 8 bits.

    Of R-MAT, whose blocks read more rows of each other, 160M nodes and 2.4 billion edges.
    """
    import torch

    sizes = {"planted": (269_346_174, 3_995_777_034), "rmat": (160_000_000, 2_400_000_000)}[options.graph]
    facts = {"graph": options.graph, "feature_type": torch.int8 if options.eight else None, "memory": HOST}
    return train(*sizes, options.k or "auto", "held_cut", epochs=options.epochs, engine=options.engine, **facts)


def eight_bit(options: argparse.Namespace) -> dict[str, object]:
    """Gradients of features in 8 bits beside those of 16, 4M nodes."""
    from gpu_task import compare_features

    found = compare_features(4_000_000, 58_200_000, 128)
    print(f"  {found}", flush=True)
    return found


def held_capped(options: argparse.Namespace) -> dict[str, object]:
    """The record's graph with the cut held, the GPU held to less and less memory; K follows from it."""
    limits = ({"device_memory": limit} for limit in (None, 125e9, 114e9))
    sizes, facts = (options.nodes, options.edges, "auto", ("held_cut",)), {"memory": HOST, "graph": options.graph}
    return {"rows": train_each(*sizes, epochs=options.epochs, variants=tuple(limits), **facts)}


def rmat(options: argparse.Namespace) -> dict[str, object]:
    """8M nodes and 120M edges of skewed degrees (R-MAT) under the three schedules, and a planted graph of that size."""
    found = []
    for graph in ("rmat", "planted"):
        found += train_each(8_000_000, 120_000_000, 16, tuple(SCHEDULE_WORDS), epochs=options.epochs, graph=graph)
    return {"rows": found}


def rmat_large(options: argparse.Namespace) -> dict[str, object]:
    """64M nodes and 931M edges of such degrees."""
    names = options.schedules.split(",")
    sizes = 64_000_000, 931_200_000, 32, tuple(names)
    return {"rows": train_each(*sizes, epochs=options.epochs, engine=options.engine, graph="rmat", memory=HOST)}


SCHEDULE_WORDS = {"synchronous": "synchronous", "held_cut": "the cut held", "partitioned": "partition schedule"}
CONVOLUTIONS = {"model_options": {"cell": "residual", "sharing": "round", "concat": "none"}, "hidden_channels": 256}


def capped(options: argparse.Namespace) -> dict[str, object]:
    """10M nodes, 120M edges, 1,024 features, three residual convolutions of 256 channels, the GPU held to 24 GiB."""
    return train(
        *(10_000_000, 120_000_000, options.k or 80, "synchronous"),
        epochs=options.epochs,
        features=1024,
        device_memory=24 * 2**30,
        engine=options.engine,
        graph=options.graph,
        **CONVOLUTIONS,
    )


def wide_check(options: argparse.Namespace) -> dict[str, object]:
    """The same network over 500,000 nodes in float32: gradients with features and states on the host, and without."""
    from gpu_task import compare_engines

    engines = ("streamed_host", "fused")
    found = compare_engines(500_000, 6_000_000, 1024, engines, graph=options.graph, **CONVOLUTIONS)
    print(f"  {found}", flush=True)
    return found


def train(
    nodes: int, edges: int, parts: int, name: str, *, epochs: int, features: int = 128, **arguments: Any
) -> dict[str, object]:
    """Prepare and train; what both took, and loss and accuracy of each epoch."""
    return train_each(nodes, edges, parts, (name,), epochs=epochs, features=features, **arguments)[0]


def train_each(
    nodes: int, edges: int, parts: int | str, names: tuple[str, ...], *, epochs: int, features: int = 128,
    graph: str = "planted", feature_type: Any = None, variants: tuple[dict[str, Any], ...] = ({},), **arguments: Any,
) -> list[dict[str, object]]:  # fmt: skip
    """The same for several schedules over one graph, each with several settings."""
    import torch
    from gpu_task import now, prepare
    from gpu_task import train as train_task

    began, found = now(), []
    task = prepare(nodes, edges, width=features, device="cuda", graph=graph, feature_type=feature_type)
    for name, variant in product(names, variants):
        measured = train_task(task, parts, name, epochs=epochs, **arguments, **variant)
        facts = {"schedule": SCHEDULE_WORDS[name], **variant, **measured}
        facts["all of it"], began = round(now() - began, 1), now()
        print(f"  { ({key: value for key, value in facts.items() if key != 'history'}) }", flush=True)
        found.append(facts)
        gc.collect()
        torch.cuda.empty_cache()
    return found


def _save(path: Path, part: str, result: dict[str, object]) -> None:
    results = json.loads(path.read_text()) if path.exists() else {}
    results[part] = result
    path.write_text(json.dumps(results, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all", "table", "tune", "bare"])
    parser.add_argument("--json", type=Path, required=True, help="the file that results add to")
    parser.add_argument("--out", type=Path, help="where `table` writes its page, and the picture beside it")
    parser.add_argument("--nodes", type=int, default=111_059_956, help="of the record")
    parser.add_argument("--edges", type=int, default=1_615_685_872, help="of the record, both directions counted")
    parser.add_argument("--k", type=int, help="parts of the record (192), of `capped` (80) and of `full` (chosen)")
    parser.add_argument("--epochs", type=int, default=10, help="of the record")
    parser.add_argument("--engine", default="auto", help="of the largest graphs, where another is wanted")
    parser.add_argument("--graph", choices=("planted", "rmat"), default="planted", help="of the largest ones")
    parser.add_argument("--schedules", default="synchronous,held_cut,partitioned", help="of `rmat_large`")
    parser.add_argument("--cells", default="residual,sage,gcn,linear", help="of `cells`")
    parser.add_argument("--eight", action="store_true", help="features of `full` in 8 bits")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
