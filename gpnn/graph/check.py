"""What a graph's arrays must be; every error names the constraint and the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gpnn.graph.graph import Graph


def check_structure(graph: Graph) -> None:
    """Raise ValueError unless the arrays agree in length and every id names a node."""
    if graph.src.numel() != graph.dst.numel():
        raise ValueError(f"`src` and `dst` must be equally long. Got {graph.src.numel()} and {graph.dst.numel()}.")
    for name, ids in (("src", graph.src), ("dst", graph.dst)):
        check_ids(f"`{name}` must hold node ids", ids, graph.num_nodes)
    check_edge_values(graph)


def check_ids(claim: str, ids: Tensor, bound: int) -> None:
    """Raise ValueError, a sentence that begins with `claim`, unless all ids lie from 0 to below `bound`."""
    low, high = (int(value) for value in torch.aminmax(ids)) if ids.numel() else (0, 0)
    if low < 0 or (high >= bound and ids.numel()):
        raise ValueError(f"{claim} from 0 to {bound - 1}. Got {low if low < 0 else high}.")


def check_edge_values(graph: Graph) -> None:
    """Raise ValueError unless types and weights have an entry per edge and no type is negative."""
    for name, values in (("edge_type", graph.edge_type), ("edge_weight", graph.edge_weight)):
        if values is not None and values.numel() != graph.num_edges:
            raise ValueError(
                f"`{name}` must have one entry for each of the {graph.num_edges} edges. Got {values.numel()}."
            )
    if graph.edge_type is not None and graph.num_edges and int(graph.edge_type.min()) < 0:
        raise ValueError(f"`edge_type` must not be negative. Got {int(graph.edge_type.min())}.")


def integers(name: str, values: Any) -> Tensor:
    """`values` as an int64 tensor of one dimension, on the CPU."""
    values = _tensor(name, values)
    if values.numel() == 0:
        values = values.long()
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise ValueError(f"`{name}` must hold integers. Got {str(values.dtype).removeprefix('torch.')}.")
    if values.dim() != 1:
        raise ValueError(f"`{name}` must have one dimension. Got shape {list(values.shape)}.")
    return values.detach().cpu().long().contiguous()


def _tensor(name: str, values: Any) -> Tensor:
    if getattr(getattr(values, "flags", None), "writeable", True) is False:
        values = values.copy()  # torch warns of numpy arrays that it could write to by mistake
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"`{name}` must be numbers of one dimension. Got {type(values).__name__}.") from None


def weights(values: Any) -> Tensor:
    """`values` as finite edge weights of one dimension, on the CPU."""
    values = _tensor("edge_weight", values).detach().cpu()
    if values.dim() == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dim() != 1:
        raise ValueError(f"`edge_weight` must have one dimension. Got shape {list(values.shape)}.")
    if not values.is_floating_point():
        values = values.float()
    finite = torch.isfinite(values)
    if not finite.all():
        edge = int((~finite).nonzero()[0])
        raise ValueError(f"`edge_weight` must be finite. Got {values[edge].item()} at edge {edge}.")
    return values.contiguous()


def selection(nodes: Tensor, num_nodes: int) -> Tensor:
    """Distinct node ids, from ids or from a mask."""
    nodes = _tensor("nodes", nodes)
    if nodes.dtype == torch.bool:
        if nodes.numel() != num_nodes:
            raise ValueError(f"A node mask must have {num_nodes} entries. Got {nodes.numel()}.")
        return nodes.nonzero().flatten()
    nodes = integers("nodes", nodes)
    check_ids("`nodes` must hold node ids", nodes, num_nodes)
    if nodes.unique().numel() != nodes.numel():
        raise ValueError(f"`nodes` must be distinct. Got {nodes.numel() - nodes.unique().numel()} repeated.")
    return nodes
