"""One GGNN round, forward and backward, on the CPU: ours beside PyTorch Geometric's `GatedGraphConv`.

    python benchmarks/propagation.py --out benchmarks/results/propagation.md

Every contender computes h' = GRU(Σ h W, h) over the same planted graph, nodes in random order, with the same weights,
and its gradients for h and all weights, in a process of its own. "Peak" is the most resident memory that the process
ever has, interpreter and preparation included; "step" is what the steps add. The edge list is let go where a contender
needs it no more: PyG's on CSR, and ours when the plan is built. The first contender's results are kept, and all others
of the same function are compared with them. The first step of each is not timed. "Memory kept" is PyG where malloc
gives nothing back to the system, and three steps are not timed: fresh pages cost PyG much of its time, which it can buy
back with memory.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from process import describe_machine, run_alone, time_steps

CONTENDERS = {  # what: (schedule, runner, type of the states), or how PyG stores the graph
    "PyG GatedGraphConv, edge_index": "edge_index",
    "PyG GatedGraphConv, CSR": "csr",
    "PyG GatedGraphConv, CSR, memory kept": "csr, kept",
    "ours, synchronous, fused": ("synchronous", "fused", "float32"),
    "ours, synchronous, streamed": ("synchronous", "streamed", "float32"),
    "ours, partitioned, fused": ("partitioned", "fused", "float32"),
    "ours, partitioned, streamed": ("partitioned", "streamed", "float32"),
    "ours, synchronous, fused, bf16 states": ("synchronous", "fused", "bfloat16"),
    "ours, partitioned, streamed, bf16 states": ("partitioned", "streamed", "bfloat16"),
}

KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}  # glibc's


def planted(options: argparse.Namespace):
    """Edges `[2, E]` of a planted graph, both ways, nodes in random order, and each node's community."""
    import torch

    random = torch.Generator().manual_seed(0)
    num_nodes, count = options.nodes, options.nodes * options.degree // 2
    size = num_nodes // options.parts
    src = torch.randint(num_nodes, (count,), generator=random)
    inside = src // size * size + torch.randint(size, (count,), generator=random)
    anywhere = torch.randint(num_nodes, (count,), generator=random)
    dst = torch.where(torch.rand(count, generator=random) < options.mixing, anywhere, inside.clamp(max=num_nodes - 1))
    name = torch.randperm(num_nodes, generator=random)
    community = torch.empty(num_nodes, dtype=torch.int64)
    community[name] = (torch.arange(num_nodes) // size).clamp(max=options.parts - 1)
    src, dst = name[src], name[dst]
    return torch.stack([torch.cat([src, dst]), torch.cat([dst, src])]), community


def parameters(width: int):
    """The message's map `[d, d]` and the gates' weights and biases, as GRUCell has them, with gradients."""
    import torch

    random = torch.Generator().manual_seed(1)
    shapes = [(width, width), (3 * width, width), (3 * width, width), (3 * width,), (3 * width,)]
    return [(torch.randn(*shape, generator=random) / width**0.5).requires_grad_() for shape in shapes]


def peer_step(how: str, edges, width: int, num_nodes: int):
    """PyG's layer as a function of the states, and its parameters."""
    import torch
    from torch_geometric.nn import GatedGraphConv

    conv = GatedGraphConv(width, num_layers=1)
    given = parameters(width)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    with torch.no_grad():
        conv.weight[0] = given[0]
        for name, value in zip(names, given[1:]):
            getattr(conv.rnn, name).copy_(value)
    graph = edges
    if how.startswith("csr"):
        ones = torch.ones(edges.shape[1])
        graph = torch.sparse_coo_tensor(edges.flip(0), ones, (num_nodes, num_nodes)).to_sparse_csr()
    return lambda state: conv(state, graph), [conv.weight, *(getattr(conv.rnn, name) for name in names)]


def our_step(how, edges, community, width: int):
    """A round under a schedule and a runner as a function of the states, and the cell's parameters."""
    import torch

    import gpnn
    from gpnn.engine import propagate
    from gpnn.nn.cell import build_cell

    name, runner, _ = how
    graph = gpnn.Graph(edges[0], edges[1], len(community))
    if name == "partitioned":
        schedule = gpnn.schedule.partitioned(graph, community, rounds=1)
    else:
        schedule = gpnn.schedule.synchronous(graph, rounds=1)
    plan = gpnn.lower(graph, schedule).build(runner)  # before the clock starts; graph and schedule are let go
    cell = build_cell("linear", "gru", "sum", {}, width, 1, torch.Generator().manual_seed(0))
    ours = [cell.message.weight, *(getattr(cell.update, n) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))]
    with torch.no_grad():
        for parameter, value in zip(ours, parameters(width)):
            parameter.copy_(value.view_as(parameter))
    return lambda state: propagate(cell, plan, state, runner=runner), ours, plan


def measure(options: argparse.Namespace) -> None:
    """Print one contender's metrics; compare its results with the first one's."""
    import torch

    how = CONTENDERS[options.contender]
    saved = torch.load(options.graph, weights_only=True)
    edges, community, plan = saved["edges"], saved["community"], None
    if isinstance(how, str):
        step, leaves = peer_step(how, edges, options.width, options.nodes)
    else:
        step, leaves, plan = our_step(how, edges, community, options.width)
    del saved, edges, community
    dtype = torch.float32 if isinstance(how, str) else getattr(torch, how[2])
    random = torch.Generator().manual_seed(2)
    state = torch.randn(options.nodes, options.width, generator=random).to(dtype).requires_grad_()
    answers = {}

    def once() -> None:
        state.grad = None
        out = step(state)
        out.sum(dtype=torch.float32).backward()
        first = {"out": out.detach()[:1000].float().clone(), "grad": state.grad[:1000].float().clone()}  # not all rows
        answers.update(first, weight=leaves[1].grad.clone())
        for leaf in leaves:
            leaf.grad = None

    metrics = time_steps(once, options.repeats, untimed=3 if "kept" in how else 1)
    metrics["difference"] = _difference(answers, options.answers.with_suffix(f".{options.width}"), how)
    metrics["updates"] = options.nodes if plan is None else plan.num_updates
    print(json.dumps(metrics))


def _difference(answers: dict, file: Path, how) -> float | None:
    """The largest difference from the first contender's results, of their largest entry; None: another function."""
    import torch

    if isinstance(how, tuple) and how[0] != "synchronous":
        return None
    if not file.exists():
        torch.save(answers, file)
    first = torch.load(file, weights_only=True)
    return max(float((answers[name] - value).abs().max() / value.abs().max()) for name, value in first.items())


def floor(options: argparse.Namespace, width: int) -> dict[str, float]:
    """Measured product rate and copy bandwidth on all threads, and the seconds that a round needs at least by them."""
    import time

    import torch

    def best(call, times: int = 5) -> float:
        seconds = []
        for _ in range(times):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
        return min(seconds)

    def rate(rows: int) -> float:
        left, right, out = torch.randn(rows, width), torch.randn(width, 3 * width), torch.empty(rows, 3 * width)
        return 2 * out.numel() * width / best(lambda: torch.mm(left, right, out=out), times=20)

    rates = []
    for precision in ("highest", "medium"):  # "medium" is bf16 where the CPU has such products
        torch.set_float32_matmul_precision(precision)
        rates.append(max(map(rate, (1 << 11, 1 << 14, 1 << 17))))  # in cache, or enough for all threads
    torch.set_float32_matmul_precision("highest")
    source = torch.zeros(1 << 26)
    target = torch.zeros_like(source)
    bandwidth = 2 * source.numel() * 4 / best(lambda: target.copy_(source))
    flops = 4 * 12 * options.nodes * width**2  # two products of [d, 3d] a row; recomputed, and two gradients
    gathered = 2 * options.nodes * (options.degree + 6) * width * 4  # a row per edge each way, and six per node
    seconds = flops / rates[0] + gathered / bandwidth
    return {"rate": rates[0], "bf16": rates[1], "bandwidth": bandwidth, "seconds": seconds}


def table(options: argparse.Namespace, width: int, folder: Path) -> list[str]:
    """A line for each contender at one width."""
    lines = [
        "| contender | wall s | CPU s | × edge_index | × CSR | peak GB | of edge_index | step GB | of edge_index "
        "| node updates | differs by |"
    ]
    lines.append("|---" * 11 + "|")
    rows: dict[str, list[dict]] = {name: [] for name in options.contenders}
    settings = [f"--{key}={getattr(options, key)}" for key in ("nodes", "degree", "mixing", "parts", "repeats")]
    settings += [f"--graph={folder / 'graph.pt'}", f"--answers={folder / 'answers'}", f"--width={width}"]
    for _ in range(options.turns):
        for name in options.contenders:
            environment = KEEP if "kept" in CONTENDERS[name] else None
            rows[name].append(run_alone(__file__, [f"--contender={name}", *settings], environment))
            print(_line(name, rows), flush=True)
    lines += [_line(name, rows) for name in options.contenders]
    least = floor(options, width)
    lines += ["", f"Floor in float32: {least['seconds']:.2f} s ({least['rate'] / 1e9:.0f} GFLOP/s of products and "]
    lines[-1] += f"{least['bandwidth'] / 1e9:.0f} GB/s of copies, measured here on all threads; where bf16 is allowed "
    lines[-1] += f"{least['bf16'] / 1e9:.0f} GFLOP/s)."
    print(lines[-1], flush=True)
    return lines


def _line(name: str, rows: dict[str, list[dict]]) -> str:
    """A contender's metrics, medians over its turns; ratios are taken turn by turn."""
    turns = rows[name]
    failed = next((row["failed"] for row in turns if "failed" in row), None)
    if failed:
        return f"| {name} | {failed} |" + " |" * 9
    for row in turns:
        row["step"], row["life"] = row["peak"] - row["before"], max(row["peak"], row["earlier"])
    edge_index, csr = (rows.get(peer, []) for peer in list(CONTENDERS)[:2])

    def middle(key: str) -> float:
        return median(row[key] for row in turns)

    def faster(peer: list[dict]) -> str:
        ratios = [theirs["wall"] / ours["wall"] for theirs, ours in zip(peer, turns) if "wall" in theirs]
        spread = f" ({min(ratios):.1f} to {max(ratios):.1f})" if len(ratios) > 1 else ""
        return f"{median(ratios):.1f}{spread}" if ratios else ""

    def memory(key: str) -> list[str]:
        ratios = [ours[key] / theirs[key] for theirs, ours in zip(edge_index, turns) if key in theirs]
        return [f"{middle(key) / 1e9:.2f}", f"{median(ratios):.2f}" if ratios else ""]

    first = turns[0]
    differs = "" if first["difference"] is None else f"{first['difference']:.0e}"
    metrics = [f"{middle('wall'):.2f}", f"{middle('cpu'):.2f}", faster(edge_index), faster(csr)]
    metrics += [*memory("life"), *memory("step"), f"{first['updates']:,}", differs]
    return f"| {name} | {' | '.join(metrics)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--mixing", type=float, default=0.1, help="share of edges that leave their community")
    parser.add_argument("--parts", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--turns", type=int, default=1, help="times to go round the contenders, medians over them")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--out", type=Path, help="write the tables to this file")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), help="these alone")
    parser.add_argument("--contender", choices=CONTENDERS, help="measure this one")
    parser.add_argument("--width", type=int)
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--answers", type=Path)
    options = parser.parse_args()
    if options.contender:
        measure(options)
        return
    import torch

    lines = [f"# {__doc__.splitlines()[0]}", *__doc__.splitlines()[1:]]
    with tempfile.TemporaryDirectory() as folder:
        edges, community = planted(options)
        torch.save({"edges": edges, "community": community}, Path(folder) / "graph.pt")
        del edges, community
        for width in options.widths:
            settings = f"{options.nodes:,} nodes, degree {options.degree}, d = {width}"
            lines += ["", f"## {settings}", "", *table(options, width, Path(folder))]
    turns = f", and of {options.turns} turns round the contenders" if options.turns > 1 else ""
    lines += [
        "",
        f"Medians of {options.repeats} steps{turns}. {options.mixing:.0%} of the edges leave their community; ",
    ]
    lines[-1] += f"K = {options.parts} subgraphs, the communities. Machine: {describe_machine()}."
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
