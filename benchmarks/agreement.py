"""Do the runners, devices and precisions give the same numbers?

    python benchmarks/agreement.py --out benchmarks/results/agreement.md

Every cell propagates over the same typed, weighted graph of 600 nodes, from the same states and parameters, and is
differentiated: under the partition schedule (6 subgraphs, 3 rounds, two steps inside and one over the cut), and under
the held cut (3 rounds of two steps). The reference is the fused runner on the CPU in float64. The states' error is
the largest difference over the largest reference entry; the gradients' is the largest, over the initial states and
all parameters, of the norm of the difference over the norm of the reference. The bounds are for sums and means; those
of extremes are four times as wide, because where two senders are close, rounding may pick the other. The last table
trains 20 epochs on a planted graph with dropout, whose masks depend on the seed alone. Lines for CUDA are there where
CUDA is. Exits with 1 when a bound does not hold.
"""

import argparse
import copy
import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

import gpnn
from gpnn.engine import Streamed, propagate
from gpnn.nn.cell import build_cell
from gpnn.train.evaluate import autocast

SCHEDULES = {"partitioned": gpnn.schedule.partitioned, "held cut": gpnn.schedule.held_cut}
NUM_NODES, NUM_PARTS, NUM_TYPES, WIDTH = 600, 6, 2, 16
CELLS = {
    "linear": ("identity", "linear", "mean"),
    "gru": ("linear", "gru", "mean"),
    "gru, max": ("linear", "gru", "max"),
    "gru, sum": ("mlp", "gru", "sum"),
    "lstm": ("identity", "lstm", "mean"),
    "mlp, min": ("linear", "mlp", "min"),
    "gcnii": ("identity", "gcnii", "mean"),
}


@dataclass(frozen=True)
class Way:
    """One way to run.

    Attributes:
        name: what the table calls it.
        runner: of :func:`gpnn.engine.propagate`; "sharded" is two processes.
        dtype: of states and parameters.
        precision: "bf16" runs products in bfloat16.
        device: where.
        schedule: of `SCHEDULES`.
        states, gradients: the bounds of the two errors for sums and means; those of extremes are four times as wide,
            because where two senders are close, rounding may pick the other.
    """

    name: str
    runner: Any = "fused"
    dtype: torch.dtype = torch.float32
    precision: str = "float32"
    device: str = "cpu"
    states: float = 2e-6
    gradients: float = 5e-6
    schedule: str = "partitioned"

    def holds(self, name: str, states: float, gradients: float) -> bool:
        """Whether the errors of a cell are within the bounds."""
        wide = 4 if CELLS[name][2] in ("max", "min") else 1
        return states <= wide * self.states and gradients <= wide * self.gradients


HALF = {"precision": "bf16", "states": 0.05, "gradients": 0.1}
CPU = (
    Way("streamed, float64", "streamed", torch.float64, states=1e-13, gradients=1e-12),
    Way("sharded, float64", "sharded", torch.float64, states=1e-13, gradients=1e-12),
    Way("fused, float32"),
    Way("streamed, float32", "streamed"),
    Way("sharded, float32", "sharded"),
    Way("streamed, boundaries in bf16", Streamed(dtype=torch.bfloat16), gradients=0.05),
    Way("fused, bf16", **HALF),
    Way("streamed, bf16", "streamed", **HALF),
)
CUDA = tuple(
    Way(
        f"{way.name}, CUDA",
        way.runner,
        way.dtype,
        way.precision,
        "cuda",
        max(way.states, 1e-12),
        max(way.gradients, 1e-11),
    )
    for way in (Way("fused, float64", "fused", torch.float64, states=1e-12, gradients=1e-11), *CPU)
    if way.runner != "sharded"
)


def graph_and_schedule(name: str) -> tuple[gpnn.Graph, gpnn.Partition, gpnn.schedule.Schedule]:
    """Both directions of 2,400 edges, nine in ten inside a subgraph; types, positive weights, a node without edges."""
    random = torch.Generator().manual_seed(0)
    size = NUM_NODES // NUM_PARTS
    src = torch.randint(NUM_NODES - 1, (2400,), generator=random)
    near = (src // size) * size + torch.randint(size - 1, (2400,), generator=random)
    far = torch.randint(NUM_NODES - 1, (2400,), generator=random)
    dst = torch.where(torch.rand(2400, generator=random) < 0.9, near, far)
    kind = torch.randint(NUM_TYPES, (4800,), generator=random)
    weight = torch.rand(4800, generator=random, dtype=torch.float64) + 0.5
    graph = gpnn.Graph(torch.cat([src, dst]), torch.cat([dst, src]), NUM_NODES, kind, weight)
    part = gpnn.Partition(torch.arange(NUM_NODES) // size, NUM_PARTS)
    return graph, part, SCHEDULES[name](graph, part, rounds=3, intra=2)


def make_cell(name: str) -> nn.Module:
    """A cell in float64, the same each time."""
    message, update, how = CELLS[name]
    return build_cell(message, update, how, {}, WIDTH, NUM_TYPES, torch.Generator().manual_seed(1)).double()


def run_once(name: str, way: Way, plan: gpnn.Plan, nodes: Tensor) -> list[Tensor]:
    """Final states, gradient of the initial states, gradients of the parameters; on the CPU in float64."""
    random = torch.Generator().manual_seed(2)
    start = torch.randn(NUM_NODES, WIDTH, generator=random, dtype=torch.float64)[nodes]
    slope = torch.randn(NUM_NODES, WIDTH, generator=random, dtype=torch.float64)[nodes]
    cell = copy.deepcopy(make_cell(name)).to(way.device, way.dtype)
    leaf = start.to(way.device, way.dtype).requires_grad_()
    runner = None if way.runner == "sharded" else way.runner
    with autocast(_Holder(cell), way.precision):
        out = propagate(cell, plan, leaf, runner=runner)
    assert isinstance(out, Tensor)
    loss = (out.to(slope.dtype) * slope.to(way.device)).sum()
    found = torch.autograd.grad(loss, [leaf, *cell.parameters()], allow_unused=True)
    grads = [torch.zeros(0) if each is None else each for each in found]
    return [each.detach().cpu().double() for each in (out, *grads)]


class _Holder(nn.Module):
    """A module that has the cell's device also where the cell has no parameters."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        found = list(cell.parameters())
        self.weight = nn.Parameter(torch.zeros(1, device=found[0].device if found else "cpu"))


def run_way(way: Way, names: Iterable[str]) -> dict[str, list[Tensor]]:
    """The results of every cell."""
    if way.runner == "sharded":
        return _in_two_processes(way, list(names))
    graph, _, schedule = graph_and_schedule(way.schedule)
    plan = gpnn.lower(graph, schedule, device=way.device, normalization="split")
    return {name: run_once(name, way, plan, torch.arange(NUM_NODES)) for name in names}


def errors(found: list[Tensor], reference: list[Tensor]) -> tuple[float, float]:
    """The error of the states and the largest of the gradients."""
    states = float((found[0] - reference[0]).abs().max() / reference[0].abs().max())
    gradients = [
        float((ours - theirs).norm() / theirs.norm())
        for ours, theirs in zip(found[1:], reference[1:], strict=True)
        if theirs.numel() and theirs.norm() > 0
    ]
    return states, max(gradients)


def _in_two_processes(way: Way, names: list[str]) -> dict[str, list[Tensor]]:
    """Own rows of both put together; the parameters' gradients are the sums of their shares."""
    import socket
    import tempfile

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_work, (port, way, names, folder), nprocs=2)
        pieces = [torch.load(Path(folder) / str(rank), weights_only=True) for rank in range(2)]
    order = torch.cat([nodes for nodes, _ in pieces])
    together = {}
    for name in names:
        (out, state, *grads), (other_out, other_state, *others) = (results[name] for _, results in pieces)
        rows = [torch.empty(NUM_NODES, WIDTH, dtype=torch.float64) for _ in range(2)]
        rows[0][order], rows[1][order] = torch.cat([out, other_out]), torch.cat([state, other_state])
        together[name] = [*rows, *(one + other if one.numel() else other for one, other in zip(grads, others))]
    return together


def _work(rank: int, port: int, way: Way, names: list[str], folder: str) -> None:
    import torch.distributed as dist

    from gpnn.distributed import NodeOrder, Ownership, ProcessGroup

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.TCPStore("127.0.0.1", port, 2, rank == 0), rank=rank, world_size=2)
    graph, part, schedule = graph_and_schedule(way.schedule)
    shard = Ownership(NodeOrder.of(graph, part, 2), ProcessGroup(None))
    plan = gpnn.lower(graph, schedule, normalization="split", shard=shard)
    torch.save((plan.nodes, {name: run_once(name, way, plan, plan.nodes) for name in names}), Path(folder) / str(rank))
    dist.barrier()
    dist.destroy_process_group()


def train_way(way: Way, epochs: int = 20) -> tuple[float, Tensor]:
    """The last training loss and the class of every node after some epochs with dropout."""
    from gpnn.train import Recipe, fit
    from gpnn.train.evaluate import predict_logits

    data = gpnn.load_dataset("planted", num_nodes=1000, num_classes=4, num_features=32, label_rate=0.1)
    schedule = gpnn.schedule.partitioned(data, gpnn.partition_graph(data, 8), rounds=3, intra=2)
    plan = gpnn.lower(data, schedule, device=way.device)
    model = gpnn.nn.GPNN(32, 32, 4, dropout=0.3, drop_node=0.2, runner=way.runner).to(way.device, way.dtype)
    data.x = data.x.to(way.dtype)
    result = fit(model, data, plan, recipe=Recipe(epochs=epochs, precision=way.precision), seed=0)
    logits = predict_logits(model, data.x.to(way.device), plan, precision=way.precision)
    return result.history[-1]["loss"], logits.argmax(1).cpu()


def agreement_table(ways: Iterable[Way], names: list[str], schedule: str) -> tuple[list[str], bool]:
    """A line per way: for each cell the two errors, and the bounds; whether all hold."""
    reference = run_way(Way("reference", dtype=torch.float64, schedule=schedule), names)
    lines = [f"| way | {' | '.join(names)} | bounds |", f"|---{'|---' * len(names)}|---|"]
    good = True
    for way in ways:
        cells = []
        for name, found in run_way(replace(way, schedule=schedule), names).items():
            states, gradients = errors(found, reference[name])
            good = good and way.holds(name, states, gradients)
            cells.append(f"{states:.0e} / {gradients:.0e}")
        lines.append(f"| {way.name} | {' | '.join(cells)} | {way.states:g} / {way.gradients:g} |")
        print(lines[-1], flush=True)
    return lines, good


def training_table(ways: Iterable[Way]) -> list[str]:
    """A line a way: the loss after the last epoch, its difference, and the share of equal predictions."""
    lines = ["| way | training loss | relative difference | equal predictions |", "|---|---|---|---|"]
    loss, classes = train_way(Way("fused, float64", dtype=torch.float64))
    lines.append(f"| fused, float64 | {loss:.6f} | – | – |")
    for way in ways:
        ours, predicted = train_way(way)
        share = float((predicted == classes).double().mean())
        lines.append(f"| {way.name} | {ours:.6f} | {abs(ours - loss) / loss:.0e} | {100 * share:.1f} % |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    ways = [*CPU, *(CUDA if torch.cuda.is_available() else ())]
    found = {schedule: agreement_table(ways, list(CELLS), schedule) for schedule in SCHEDULES}
    trained = training_table(way for way in ways if way.runner != "sharded" and way.dtype == torch.float32)
    if out is not None:
        out.write_text(_page({schedule: lines for schedule, (lines, _) in found.items()}, trained))
    sys.exit(not all(good for _, good in found.values()))


def _page(tables: dict[str, list[str]], trained: list[str]) -> str:
    device = f", {torch.cuda.get_device_name(0)}" if torch.cuda.is_available() else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB{device}; torch {torch.__version__}"
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    head = f"# Runners, devices and precisions agree\n\n    python benchmarks/agreement.py --out FILE\n\n{about}\n\n"
    titled = {f"Error of the states / of the gradients, {schedule}": lines for schedule, lines in tables.items()}
    titled["After 20 epochs of training under the partition schedule"] = trained
    tabled = ["\n".join([f"\n{title}:\n", *lines, ""]) for title, lines in titled.items()]
    return f"{head}Machine: {machine}.\n" + "".join(tabled)


if __name__ == "__main__":
    main()
