"""One step of a gated graph network forward and backward, ours and others', on the same graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from statistics import median

import torch
from gpu_graph import symmetric_csr
from gpu_train import gib
from torch import Tensor, nn

from gpnn.engine import Step
from gpnn.engine.lower_csr import lower_csr
from gpnn.nn.build_cell import build_cell
from gpnn.partition.clustered import cluster_parts


def compare_steps(num_nodes: int, num_edges: int, width: int, *, repeats: int = 20) -> list[dict[str, object]]:
    """A row for each method: milliseconds, memory above nothing, and bytes a second of the floor."""
    random = torch.Generator("cuda").manual_seed(0)
    ends = [torch.randint(num_nodes, (num_edges // 2,), device="cuda", generator=random).int() for _ in range(2)]
    ptr, col = symmetric_csr(*ends, num_nodes, pieces=1)
    del ends
    rows = []
    for name, dtype, precision, make in _methods(ptr, col, width):
        torch.cuda.empty_cache()
        torch.set_float32_matmul_precision(precision)
        try:
            step, about = make()
            x = torch.randn(num_nodes, width, device="cuda", generator=random).to(dtype).requires_grad_()
            row = {"method": name, "states": str(dtype).removeprefix("torch."), **_measure(step, x, repeats), **about}
        except torch.cuda.OutOfMemoryError:
            row = {"method": name, "states": str(dtype), "ms": "out of memory"}
        print(row, flush=True)
        rows.append(row)
        step = x = None
    torch.set_float32_matmul_precision("highest")
    return rows


def _measure(step: Callable[[Tensor], Tensor], x: Tensor, repeats: int) -> dict[str, object]:
    grad, times = torch.randn_like(x), []
    for number in range(repeats + 3):
        x.grad = None
        if number == 3:
            torch.cuda.reset_peak_memory_stats()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step(x).backward(grad)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return {"ms": round(median(times[3:]), 2), "GiB": gib(torch.cuda.max_memory_allocated())}


def _methods(ptr: Tensor, col: Tensor, width: int):  # type: ignore[no-untyped-def]
    """Name, type of the states, precision of float32 products, and what makes the step."""
    ours, own_bf16 = "gpnn, synchronous", torch.bfloat16
    for message in ("identity", "linear"):
        yield f"{ours}, {message} messages", own_bf16, "high", lambda m=message: (_synchronous(ptr, col, width, m), {})
    yield "gpnn, partition schedule (two phases)", own_bf16, "high", lambda: _partitioned(ptr, col, width)
    yield f"{ours}, TF32 products", torch.float32, "high", lambda: (_synchronous(ptr, col, width, "identity"), {})
    yield f"{ours}, float32 products", torch.float32, "highest", lambda: (_synchronous(ptr, col, width, "identity"), {})
    yield "CSR matmul + GRUCell, TF32", torch.float32, "high", lambda: (_plain(ptr, col, width), {})
    yield "CSR matmul + GRUCell", torch.float32, "highest", lambda: (_plain(ptr, col, width), {})
    yield "PyG GatedGraphConv, TF32", torch.float32, "high", lambda: (_pyg(ptr, col, width), {})
    yield "PyG GatedGraphConv", torch.float32, "highest", lambda: (_pyg(ptr, col, width), {})


def _cell(width: int, message: str) -> nn.Module:
    return build_cell(message, "gru", "mean", {}, width, 1, torch.Generator().manual_seed(0)).cuda()


def _synchronous(ptr: Tensor, col: Tensor, width: int, message: str) -> Callable[[Tensor], Tensor]:
    num_nodes, cell = ptr.numel() - 1, _cell(width, message)
    order = torch.arange(num_nodes, device="cuda")
    (phase,) = lower_csr(ptr, col, order, torch.tensor([0, num_nodes]), rounds=1).rounds[0]
    return lambda x: cell.advance(phase.blocks[0], x, Step(0, "inside", 0))


def _partitioned(ptr: Tensor, col: Tensor, width: int) -> tuple[Callable[[Tensor], Tensor], dict[str, object]]:
    """One round, inside and cut; the graph has no communities, so that most edges are cut: the worst case."""
    cell, found = _cell(width, "identity"), cluster_parts(ptr, col, 8)
    inside, cut = lower_csr(ptr, col, found.order, found.ptr, rounds=1).rounds[0]

    def step(x: Tensor) -> Tensor:
        parts = [cell.advance(block, x[block.inputs], Step(0, "inside", 0)) for block in inside.blocks]
        state = torch.cat(parts)
        after = [cell.advance(block, state.index_select(0, block.inputs), Step(0, "cut", 0)) for block in cut.blocks]
        return state.index_copy(0, cut.row_index, torch.cat(after))

    return step, {"updates a node": round((inside.num_rows + cut.num_rows) / (ptr.numel() - 1), 2)}


def _plain(ptr: Tensor, col: Tensor, width: int) -> Callable[[Tensor], Tensor]:
    scale = 1 / ptr.diff().clamp(min=1).float()
    values = torch.repeat_interleave(scale, ptr.diff())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = torch.sparse_csr_tensor(ptr, col.long(), values, (ptr.numel() - 1,) * 2)
    cell = nn.GRUCell(width, width).cuda()
    return lambda x: cell(matrix @ x, x)


def _pyg(ptr: Tensor, col: Tensor, width: int) -> Callable[[Tensor], Tensor]:
    from torch_geometric.nn import GatedGraphConv

    row = torch.repeat_interleave(torch.arange(ptr.numel() - 1, device="cuda"), ptr.diff())
    edge_index = torch.stack([col.long(), row])
    conv = GatedGraphConv(width, num_layers=1, aggr="mean").cuda()
    return lambda x: conv(x, edge_index)


def floor_ms(num_nodes: int, num_edges: int, width: int, terabytes: float) -> float:
    """Milliseconds that the bytes of a bf16 step alone take at the measured rate of a copy.

    Each edge reads a row of width d forward and one backward; each node reads and writes its state and its gradient.
    """
    row = 2 * width
    count = 2 * num_edges * (row + 4) + num_nodes * row * 10
    return count / terabytes / 1e9
