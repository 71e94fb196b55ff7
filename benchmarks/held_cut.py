"""The cut held, streamed, beside synchronous propagation of the same depth, fused, on the CPU.

    python benchmarks/held_cut.py --out benchmarks/results/held_cut.md

Every contender takes the same number of steps of h' = GRU(mean of neighbours' h, h) over the same planted graph, nodes
in random order, and the gradients for h and all weights, in a process of its own; the loss is the sum of the last
states. The partition schedule takes as many rounds as there are steps. "With the loss" is the pass of `gpnn train`: the
loss is a sum over nodes, and each block of the last round is differentiated as it is done. The subgraphs are the
communities.
"Peak" is the most resident memory that the process ever has, "steps" what the passes add. The first pass of each is not
timed; contenders take turns, and ratios are taken turn by turn. "By subgraph" is synchronous propagation of a graph
whose nodes are numbered by subgraph already. With `--together` all contenders are in one process, pass by pass in turn,
which tells their CPU seconds apart on a busy machine; memory is not measured then.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from process import cpu_seconds, describe_machine, run_alone, time_steps
from propagation import planted

CONTENDERS = {  # what: (schedule, runner, whether nodes are numbered by subgraph)
    "synchronous, fused": ("synchronous", "fused", False),
    "synchronous, fused, by subgraph": ("synchronous", "fused", True),
    "synchronous, streamed": ("synchronous", "streamed", False),
    "held cut, fused": ("held_cut", "fused", False),
    "held cut, streamed": ("held_cut", "streamed", False),
    "held cut, streamed, with the loss": ("held_cut", "streamed with loss", False),
    "partitioned, fused": ("partitioned", "fused", False),
    "partitioned, streamed": ("partitioned", "streamed", False),
    "partitioned, streamed, phases kept": ("partitioned", "streamed phases", False),
}


def measure(options: argparse.Namespace) -> None:
    """Print one contender's figures."""
    once, plan = prepare(options, options.contender)
    figures = time_steps(once, options.repeats, untimed=1)
    print(json.dumps(figures | {"messages": plan.num_messages, "updates": plan.num_updates}))


def prepare(options: argparse.Namespace, contender: str):
    """A pass of a contender, and its plan."""
    import torch

    import gpnn
    from gpnn.engine import propagate
    from gpnn.nn.cell import build_cell

    name, way, sorted_nodes = CONTENDERS[contender]
    runner = way.split()[0]
    saved = torch.load(options.graph, weights_only=True)
    edges, community = saved["edges"], saved["community"]
    if sorted_nodes:
        place = torch.empty_like(community)
        place[community.argsort(stable=True)] = torch.arange(len(community))
        edges, community = place[edges], community.sort().values
    graph = gpnn.Graph(edges[0], edges[1], len(community))
    if name == "held_cut":
        schedule = gpnn.schedule.held_cut(graph, community, options.rounds, options.depth // options.rounds)
    elif name == "partitioned":
        schedule = gpnn.schedule.partitioned(graph, community, options.depth)
    else:
        schedule = gpnn.schedule.synchronous(graph, options.depth)
    plan = gpnn.lower(graph, schedule).build(runner)
    del saved, edges, community, graph, schedule
    cell = build_cell("identity", options.cell, "mean", {}, options.width, 1, torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(2)
    state = torch.randn(options.nodes, options.width, generator=random).requires_grad_()

    def once() -> None:
        for leaf in (state, *cell.parameters()):
            leaf.grad = None
        if way == "streamed with loss":
            loss_of_blocks(cell, plan, state).backward()
        else:
            kept = gpnn.engine.Streamed(phases=True) if way == "streamed phases" else runner
            propagate(cell, plan, state, runner=kept).sum().backward()

    return once, plan


def together(options: argparse.Namespace, rounds: int, depth: int, graph: Path) -> list[str]:
    """A line for each contender at one depth, all in this process: least seconds, and the median ratio of passes."""
    options.rounds, options.depth, options.graph = rounds, depth, graph
    passes = {name: prepare(options, name)[0] for name in options.contenders}
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    for number in range(options.repeats + 1):
        for name, once in passes.items():
            began = cpu_seconds()
            once()
            if number:
                seconds[name].append(cpu_seconds() - began)
    first = next(iter(seconds.values()))
    lines = ["| contender, together | least CPU s | × least | × pass by pass |", "|---|---|---|---|"]
    for name, found in seconds.items():
        ratio = median(ours / theirs for ours, theirs in zip(found, first))
        lines.append(f"| {name} | {min(found):.2f} | {min(found) / min(first):.2f} | {ratio:.2f} |")
        print(lines[-1], flush=True)
    return lines


def loss_of_blocks(cell, plan, state):
    """The sum of the last states, its gradients found block by block in the same pass."""
    import torch

    from gpnn.engine import Streamed
    from gpnn.engine.blockwise_backward import RowLoss
    from gpnn.engine.saved_states import GivenState

    loss = RowLoss(torch.arange(plan.num_nodes), lambda states, places: states.sum(), ())
    return Streamed().differentiate(cell, plan, GivenState(plan.to_plan_order(state)), loss)


def table(options: argparse.Namespace, rounds: int, depth: int, folder: Path) -> list[str]:
    """A line for each contender at one depth."""
    settings = [f"--{key}={getattr(options, key)}" for key in ("nodes", "width", "repeats", "cell")]
    settings += [f"--graph={folder / 'graph.pt'}", f"--rounds={rounds}", f"--depth={depth}"]
    rows: dict[str, list[dict]] = {name: [] for name in options.contenders}
    for _ in range(options.turns):
        for name in options.contenders:
            rows[name].append(run_alone(__file__, [f"--contender={name}", *settings]))
            print(_line(name, rows), flush=True)
    heads = ("contender", "wall s", "CPU s", "× wall", "× CPU", "peak GB", "×", "steps GB", "×", "messages")
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(_line(name, rows) for name in options.contenders)]


def _line(name: str, rows: dict[str, list[dict]]) -> str:
    """Medians over the turns; ratios to the first contender, turn by turn."""
    turns, first = rows[name], next(iter(rows.values()))
    failed = next((row["failed"] for row in turns + first if "failed" in row), None)
    if failed:
        return f"| {name} | {failed} |" + " |" * 8
    for row in turns:
        row["steps"], row["life"] = row["peak"] - row["before"], max(row["peak"], row["earlier"])

    def middle(key: str) -> float:
        return median(row[key] for row in turns)

    def ratio(key: str) -> str:
        return f"{median(ours[key] / theirs[key] for ours, theirs in zip(turns, first)):.2f}"

    figures = [f"{middle('wall'):.2f}", f"{middle('cpu'):.2f}", ratio("wall"), ratio("cpu")]
    for key in ("life", "steps"):
        figures += [f"{middle(key) / 1e9:.2f}", ratio(key)]
    return f"| {name} | {' | '.join(figures)} | {turns[0]['messages']:,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--mixing", type=float, default=0.1, help="share of edges that leave their community")
    parser.add_argument("--parts", type=int, default=500)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--cell", default="gru", help="a name of gpnn.nn.UPDATES without initial residual")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3, help="times to go round the contenders, medians over them")
    parser.add_argument("--cases", nargs="+", default=["1x4", "2x8"], help="rounds x steps per round")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), help="these alone")
    parser.add_argument("--together", action="store_true", help="all contenders in one process, in turn")
    parser.add_argument("--out", type=Path, help="write the tables to this file")
    parser.add_argument("--contender", choices=CONTENDERS, help="measure this one")
    parser.add_argument("--graph", type=Path)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--depth", type=int)
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
        for case in options.cases:
            rounds, intra = (int(number) for number in case.split("x"))
            lines += ["", f"## Depth {rounds * intra} in {rounds} round{'s' if rounds > 1 else ''}", ""]
            if options.together:
                lines += together(options, rounds, rounds * intra, Path(folder) / "graph.pt")
            else:
                lines += table(options, rounds, rounds * intra, Path(folder))
    words = f"Cell {options.cell}; {options.nodes:,} nodes, degree {options.degree}, d = {options.width}, "
    lines += ["", f"{words}K = {options.parts}; "]
    lines[-1] += f"{options.mixing:.0%} of the edges leave their community. Medians of {options.repeats} passes and "
    lines[-1] += f"{1 if options.together else options.turns} turns. Machine: {describe_machine()}."
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
