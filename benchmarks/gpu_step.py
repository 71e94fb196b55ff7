"""One step of a gated graph network, or of a convolution, forward and backward, ours and others', on the same graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from statistics import median

import torch
from gpu_graph import planted, symmetric_csr
from gpu_task import gib
from torch import Tensor, nn

from gpnn.engine import Step, Streamed
from gpnn.engine.lower_schedule import lower_csr
from gpnn.nn.cell import build_cell
from gpnn.partition.clustered import Parts, cluster_parts
from gpnn.schedule import partitioned_phases, synchronous_phases

Method = tuple[str, torch.dtype, str, Callable[[], Callable[[Tensor], Tensor]]]


CONVOLUTIONS = ("gcn", "sage", "residual")
LARGER = ("rmat", 8_000_000, 120_000_000)  # a graph whose degrees are as skewed as those of real ones


def compare_steps(num_nodes: int, num_edges: int, width: int, *, repeats: int = 20) -> list[dict[str, object]]:
    """A row for each method on a graph without structure, and for some on ones with communities or hubs, or both."""
    ptr, col = _random_graph(num_nodes, num_edges)
    rows = [_row("random", method, num_nodes, width, repeats) for method in _on_random(ptr, col, width)]
    for name, nodes, edges in (("planted", num_nodes, num_edges), ("rmat", num_nodes, num_edges), LARGER):
        graph = planted(nodes, edges, "cuda", graph=name)
        title = name if nodes == num_nodes else f"{name}, {nodes / 1e6:g}M nodes, {edges / 1e6:g}M edges"
        rows += [_row(title, method, nodes, width, repeats) for method in _on_planted(graph.ptr, graph.col, width)]
        del graph
    return rows


def compare_convolutions(num_nodes: int, num_edges: int, width: int, *, repeats: int = 20) -> list[dict[str, object]]:
    """The same for convolutions, on a planted graph and on a larger one of skewed degrees."""
    rows = []
    for name, nodes, edges in (("planted", num_nodes, num_edges), LARGER):
        graph = planted(nodes, edges, "cuda", graph=name)
        title = f"{name}, {nodes / 1e6:g}M nodes, {edges / 1e6:g}M edges"
        methods = (method for update in CONVOLUTIONS for method in _of_convolution(graph.ptr, graph.col, width, update))
        rows += [_row(title, method, nodes, width, repeats) for method in methods]
        del graph
    return rows


def _random_graph(num_nodes: int, num_edges: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator("cuda").manual_seed(0)
    ends = [torch.randint(num_nodes, (num_edges // 2,), device="cuda", generator=random).int() for _ in range(2)]
    return symmetric_csr(*ends, num_nodes, pieces=1)


def bare_step(num_nodes: int, num_edges: int, width: int, update: str = "gru") -> Callable[[], None]:
    """Our step in bf16 on the graph without structure, forward and backward."""
    step = _synchronous(*_random_graph(num_nodes, num_edges), width, update=update)
    x = torch.randn(num_nodes, width, device="cuda").bfloat16().requires_grad_()
    grad = torch.randn_like(x)

    def once() -> None:
        x.grad = None
        step(x).backward(grad)

    return once


def kernel_times(work: Callable[[], object], times: int) -> list[dict[str, object]]:
    """Calls and milliseconds of each kernel that takes at least a hundredth of `work`, the longest first."""
    work()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(times):
            work()
        torch.cuda.synchronize()
    events = sorted(seen.key_averages(), key=lambda event: -event.self_device_time_total)
    all_of_it = sum(event.self_device_time_total for event in events)
    rows = [
        {"kernel": event.key[:70], "calls": event.count / times, "ms": event.self_device_time_total / times / 1000}
        for event in events
        if event.self_device_time_total > all_of_it / 100
    ]
    for row in rows:
        print(row, flush=True)
    return rows


def tune_gates(num_rows: int, width: int) -> list[dict[str, object]]:
    """Milliseconds of the kernels of a step by their tiles, each variant checked against a float64 oracle first.

    "forward" are the gates, "backward" all that follows from them, "weights" the gradients of the weights, by one
    kernel or by torch's products, and "messages" a sum over ten neighbours.
    """
    from gpnn.kernels import gpu, gpu_gru

    cell, rows = _cell(width, "identity").update, []
    parameters = tuple(p.detach() for p in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh))
    messages, state, grad = (torch.randn(num_rows, width, device="cuda").bfloat16() for _ in range(3))
    few = [tensor[:20_000] for tensor in (messages, state)]
    expected = _gradients(torch.gru_cell, [*few, *parameters], grad[:20_000], torch.float64)
    gates, spare = messages.new_empty(num_rows, 4 * width).normal_(), torch.empty_like(state)
    ptr, col = _random_graph(num_rows, 10 * num_rows)
    work: dict[str, Callable[[], object]] = {
        "forward": lambda: gpu_gru.update_all(messages, state, parameters),
        "backward": lambda: gpu_gru.differentiate_all(messages, state, grad, parameters, spare),
        "weights": lambda: gpu_gru._Totals(state).add(gates, messages, state),
        "messages": lambda: gpu.weighted_sum(ptr, col, None, None, state),
    }
    for part, options in _variants():
        row: dict[str, object] = {"part": part, **options}
        with _set(part, options):
            try:
                found = _gradients(gpu_gru.gru_update, [*few, *parameters], grad[:20_000], None)
                row["error"] = max(_error(a, b) for a, b in zip(found, expected, strict=True))
                row["ms"] = [milliseconds(work[part]) for _ in range(2)]
            except Exception as error:  # a tile that does not fit on the chip
                row["ms"] = f"{type(error).__name__}: {str(error)[:80]}"
        rows.append(row)
        print(row, flush=True)
    return rows


def _variants() -> Iterator[tuple[str, dict[str, int]]]:
    """Which part of a step, and what is set for it."""
    for part in ("forward", "backward"):
        yield part, {"TILES": 0}  # weights stay on the chip
        for rows, columns, warps, stages in ((128, 32, 4, 1), (64, 32, 4, 1), (128, 64, 8, 1), (256, 32, 8, 1)):
            tile = {"ROWS": rows, "COLUMNS": columns, "num_warps": warps, "num_stages": stages}
            yield part, {"TILES": 1 << 40, **tile}
    yield "weights", {"ONE_PASS": 0}
    for step, stages, shares in ((64, 3, 44), (32, 4, 44), (32, 3, 88)):
        yield "weights", {"ONE_PASS": 1, "STEP": step, "num_warps": 8, "num_stages": stages, "SHARES": shares}
    for rows, entries in ((2, 1), (2, 2), (1, 4), (2, 4), (4, 2)):
        yield "messages", {"ROWS": rows, "ENTRIES": entries}


@contextmanager
def _set(part: str, options: dict[str, int]) -> Iterator[None]:
    """A variant for some time."""
    from gpnn.kernels import gpu, gpu_gru

    tables = {"forward": gpu_gru.FORWARD, "backward": gpu_gru.BACKWARD, "weights": gpu_gru.PRODUCTS, "messages": {}}
    table, module = tables[part], gpu if part == "messages" else gpu_gru
    kept, names = dict(table), [name for name in options if name not in table and name != "ONE_PASS"]
    before = [getattr(module, name) for name in names]
    table.update({name: value for name, value in options.items() if name in table})
    for name in names:
        setattr(module, name, options[name])
    one_pass, gpu_gru.ONE_PASS = gpu_gru.ONE_PASS, {2} if options.get("ONE_PASS", 1) else set()
    yield
    gpu_gru.ONE_PASS = one_pass
    table.update(kept)
    for name, value in zip(names, before):
        setattr(module, name, value)


def _gradients(
    step: Callable[..., Tensor], tensors: list[Tensor], grad: Tensor, dtype: torch.dtype | None
) -> list[Tensor]:
    leaves = [tensor.detach().to(dtype or tensor.dtype).requires_grad_() for tensor in tensors]
    out = step(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad.to(out.dtype))]


def _error(ours: Tensor, theirs: Tensor) -> float:
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


def milliseconds(work: Callable[[], object], repeats: int = 20) -> float:
    """Of one call, the mean of some after three."""
    for _ in range(3):
        work()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        work()
    end.record()
    end.synchronize()
    return round(begin.elapsed_time(end) / repeats, 3)


def _row(graph: str, method: Method, num_nodes: int, width: int, repeats: int) -> dict[str, object]:
    name, dtype, precision, make = method
    torch.cuda.empty_cache()
    torch.set_float32_matmul_precision(precision)
    row: dict[str, object] = {"graph": graph, "method": name, "states": str(dtype).removeprefix("torch.")}
    try:
        x = torch.randn(num_nodes, width, device="cuda").to(dtype).requires_grad_()
        row |= _measure(make(), x, repeats)
    except torch.cuda.OutOfMemoryError:
        row["ms"] = "out of memory"
    torch.set_float32_matmul_precision("highest")
    print(row, flush=True)
    return row


def _measure(step: Callable[[Tensor], Tensor], x: Tensor, repeats: int) -> dict[str, object]:
    """The median of steps that follow each other without waiting for the CPU, and the most memory at one time."""
    grad, marks = torch.randn_like(x), []
    for number in range(repeats + 4):
        if number == 3:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        x.grad = None
        step(x).backward(grad)
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
    torch.cuda.synchronize()
    times = [first.elapsed_time(second) for first, second in pairwise(marks[3:])]
    return {"ms": round(median(times), 2), "GiB": gib(torch.cuda.max_memory_allocated())}


def _on_random(ptr: Tensor, col: Tensor, width: int) -> Iterator[Method]:
    """Name, type of the states, precision of float32 products, and what makes the step."""
    half, single = torch.bfloat16, torch.float32
    for message in ("identity", "linear"):
        yield f"gpnn, {message} messages", half, "high", partial(_synchronous, ptr, col, width, message)
    yield "gpnn, TF32 products", single, "high", partial(_synchronous, ptr, col, width)
    yield "gpnn, float32 products", single, "highest", partial(_synchronous, ptr, col, width)
    for note, precision in ((", TF32", "high"), ("", "highest")):
        yield f"CSR matmul + GRUCell{note}", single, precision, partial(_plain, ptr, col, width)
    for note, precision in ((", TF32", "high"), ("", "highest")):
        yield f"PyG GatedGraphConv{note}", single, precision, partial(_pyg, ptr, col, width)


def _on_planted(ptr: Tensor, col: Tensor, width: int) -> Iterator[Method]:
    half, single, found = torch.bfloat16, torch.float32, cluster_parts(ptr, col, 2)
    yield "gpnn, synchronous, nodes as they come", half, "high", partial(_synchronous, ptr, col, width)
    by_cluster = partial(_synchronous, ptr, col, width, order=found.order)
    yield "gpnn, synchronous, nodes by cluster", half, "high", by_cluster
    yield "gpnn, partition schedule, one round", half, "high", partial(_partitioned, ptr, col, width, found)
    yield "CSR matmul + GRUCell, TF32", single, "high", partial(_plain, ptr, col, width)
    yield "PyG GatedGraphConv, TF32", single, "high", partial(_pyg, ptr, col, width)


def _of_convolution(ptr: Tensor, col: Tensor, width: int, update: str) -> Iterator[Method]:
    """By our kernels; by torch's operations after our aggregation; and by others."""
    half, single = torch.bfloat16, torch.float32
    ours = partial(_synchronous, ptr, col, width, update=update)
    yield f"{update}: gpnn", half, "high", ours
    yield f"{update}: gpnn, the update by torch's operations", half, "high", partial(ours, kernels=False)
    yield f"{update}: gpnn, TF32 products", single, "high", ours
    for dtype in (half, single):
        yield f"{update}: CSR matmul + torch, TF32", dtype, "high", partial(_plain_convolution, ptr, col, width, update)
    for dtype in (half, single):
        yield f"{update}: PyG SAGEConv, TF32", dtype, "high", partial(_pyg_convolution, ptr, col, width, update)


def _cell(width: int, message: str, update: str = "gru") -> nn.Module:
    return build_cell(message, update, "mean", {}, width, 1, torch.Generator().manual_seed(0)).cuda()


def _synchronous(
    ptr: Tensor,
    col: Tensor,
    width: int,
    message: str = "identity",
    order: Tensor | None = None,
    update: str = "gru",
    kernels: bool = True,
) -> Callable[[Tensor], Tensor]:
    num_nodes, cell = ptr.numel() - 1, _cell(width, message, update)
    if not kernels:
        cell.update.form = None  # type: ignore[union-attr]
    order = torch.arange(num_nodes, device="cuda") if order is None else order
    (phase,) = lower_csr(ptr, col, order, torch.tensor([0, num_nodes]), synchronous_phases(), rounds=1).rounds[0]
    return lambda x: cell.advance(phase.blocks[0], x, Step(0, "all", 0))


def _partitioned(ptr: Tensor, col: Tensor, width: int, found: Parts) -> Callable[[Tensor], Tensor]:
    """Inside and cut, by the streamed runner: the inside phase is computed twice."""
    cell, plan = _cell(width, "identity"), lower_csr(ptr, col, *found, partitioned_phases(), rounds=1)
    return lambda x: Streamed()(cell, plan, x, initial=None, collect=False)[0]  # type: ignore[arg-type]


def _plain(ptr: Tensor, col: Tensor, width: int) -> Callable[[Tensor], Tensor]:
    matrix, cell = _csr_matrix(ptr, col), nn.GRUCell(width, width).cuda()
    return lambda x: cell(matrix @ x, x)


def _plain_convolution(ptr: Tensor, col: Tensor, width: int, update: str) -> Callable[[Tensor], Tensor]:
    by_message, by_state = (nn.Linear(width, width, bias=bias).cuda() for bias in (True, False))
    matrices: dict[torch.dtype, Tensor] = {}

    def convolve(x: Tensor) -> Tensor:
        if x.dtype not in matrices:
            matrices[x.dtype] = _csr_matrix(ptr, col).to(x.dtype)
            by_message.to(x.dtype), by_state.to(x.dtype)
        sums = by_message(matrices[x.dtype] @ x)
        return sums if update == "gcn" else sums + by_state(x)

    return partial(_around, convolve, update)


def _around(convolve: Callable[[Tensor], Tensor], update: str, x: Tensor) -> Tensor:
    """What a network has around its convolution."""
    if update == "residual":
        return x + convolve(nn.functional.layer_norm(x, x.shape[1:])).relu()
    return convolve(x).relu()


def _csr_matrix(ptr: Tensor, col: Tensor) -> Tensor:
    scale = 1 / ptr.diff().clamp(min=1).float()
    values = torch.repeat_interleave(scale, ptr.diff())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(ptr, col.long(), values, (ptr.numel() - 1,) * 2)


def _pyg(ptr: Tensor, col: Tensor, width: int) -> Callable[[Tensor], Tensor]:
    from torch_geometric.nn import GatedGraphConv

    conv, edge_index = GatedGraphConv(width, num_layers=1, aggr="mean").cuda(), _edge_index(ptr, col)
    return lambda x: conv(x, edge_index)


def _pyg_convolution(ptr: Tensor, col: Tensor, width: int, update: str) -> Callable[[Tensor], Tensor]:
    from torch_geometric.nn import SAGEConv

    conv, edge_index = SAGEConv(width, width, root_weight=update != "gcn").cuda(), _edge_index(ptr, col)
    return partial(_around, lambda x: conv.to(x.dtype)(x, edge_index), update)


def _edge_index(ptr: Tensor, col: Tensor) -> Tensor:
    row = torch.repeat_interleave(torch.arange(ptr.numel() - 1, device="cuda"), ptr.diff())
    return torch.stack([col.long(), row])


def floor_ms(num_nodes: int, num_edges: int, width: int, terabytes: float) -> float:
    """Milliseconds that the bytes of a bf16 step alone take at the measured rate of a copy.

    Each edge reads a row of width d forward and one backward; each node reads and writes its state and its gradient.
    """
    row = 2 * width
    count = 2 * num_edges * (row + 4) + num_nodes * row * 10
    return count / terabytes / 1e9
