"""PyG's `HeteroData` as one `Data` with typed edges: features side by side, labels of the node type that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.data.labels import are_numbers, check_labels, kind_of
from gpnn.data.splits import MASKS
from gpnn.data.tables.node_features import SPARSE_BELOW
from gpnn.graph import Graph
from gpnn.graph.convert import edge_weight

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData


def data_from_hetero(hetero: HeteroData, task: str = "auto") -> Data:
    """The nodes of all types, one type after the other, in one graph with typed edges (:meth:`gpnn.Graph.from_hetero`).

    The features of each node type have columns of their own, zero for other types, and the last columns say which type
    a node is of; where no type has features there are none. Labels and masks are those of the one node type that has
    `y`; nodes of other types are unlabelled.

    Args:
        hetero: node types with `x` `[N_t, F_t]`, one of them with `y`; edge types with `edge_index`.
        task: what `y` is, as of :func:`gpnn.data.labels.check_labels`.

    Returns:
        `Data` with `node_type` `[N]`, `node_type_names`, `edge_type` `[E]` and `edge_type_names`.

    Raises:
        ValueError: when several node types have `y`, or edges have attributes that are not weights.

    >>> from torch_geometric.data import HeteroData
    >>> hetero = HeteroData({"user": {"x": torch.ones(2, 1), "y": torch.tensor([0, 1])}, "shop": {"num_nodes": 1}})
    >>> hetero["user", "buys", "shop"].edge_index = torch.tensor([[0, 1], [0, 0]])
    >>> data = data_from_hetero(hetero)
    >>> data.y.tolist(), data.x.tolist()
    ([0, 1, -1], [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """
    graph = Graph.from_hetero(hetero)
    for kind in hetero.edge_types:
        _check_attributes(kind, hetero[kind])
    data, names = graph.to_data(), hetero.node_types
    sizes = torch.tensor([hetero[name].num_nodes for name in names])
    data.node_type, data.node_type_names = torch.repeat_interleave(torch.arange(len(names)), sizes), list(names)
    data.edge_type_names = [" ".join(kind) for kind in hetero.edge_types]
    x = _features(hetero, data.node_type)
    if x is not None:
        data.x = x
    _add_labels(data, hetero, task)
    return data


def _check_attributes(kind: tuple[str, str, str], store: Any) -> None:
    if store.get("edge_attr") is not None and edge_weight(store) is not store.edge_attr:
        raise ValueError(
            f"`edge_attr` of {kind} must be a weight, one floating-point number per edge (`del data[{kind}].edge_attr` "
            f"leaves it out). Got {kind_of(store.edge_attr)} of shape {list(store.edge_attr.shape)}."
        )


def _features(hetero: HeteroData, node_type: Tensor) -> Tensor | None:
    """The features of all nodes, `[N, ΣF_t + types]`, dense, or sparse CSR where few are not zero."""
    from scipy.sparse import block_diag, csr_matrix, hstack

    tables = {name: hetero[name].get("x") for name in hetero.node_types}
    if all(x is None for x in tables.values()):
        return None
    blocks = [
        csr_matrix((hetero[name].num_nodes, 0), dtype=np.float32)
        if x is None
        else _block(name, x, hetero[name].num_nodes)
        for name, x in tables.items()
    ]
    if len(blocks) > 1:
        kinds = np.eye(len(blocks), dtype=np.float32)[node_type.numpy()]
        matrix = hstack([block_diag(blocks), csr_matrix(kinds)], "csr")
    else:
        matrix = blocks[0]
    return from_scipy(matrix, sparse=matrix.nnz < SPARSE_BELOW * matrix.shape[0] * matrix.shape[1])


def _block(name: str, x: Any, num_nodes: int) -> Any:
    """The features of one node type as a scipy matrix."""
    from scipy.sparse import csr_matrix

    if not isinstance(x, Tensor) or x.dim() != 2 or x.layout not in (torch.strided, torch.sparse_csr):
        raise ValueError(f"`x` of {name!r} must be a dense or sparse CSR tensor [N, F]. Got {kind_of(x)}.")
    if x.shape[0] != num_nodes:
        raise ValueError(f"`x` of {name!r} must have one row for each of its {num_nodes} nodes. Got {x.shape[0]}.")
    if x.layout == torch.strided:
        return csr_matrix(x.float().numpy())
    return csr_matrix((x.values().float().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()), tuple(x.shape))


def _add_labels(data: Data, hetero: HeteroData, task: str) -> None:
    """Labels `y` and masks of the one node type that has them."""
    labelled = [name for name in hetero.node_types if hetero[name].get("y") is not None]
    if len(labelled) > 1:
        raise ValueError(
            f"One node type must have `y`; leave out the others (`del data[{labelled[-1]!r}].y`). "
            f"Got {', '.join(map(repr, labelled))}."
        )
    for name in labelled:
        store, rows = hetero[name], data.node_type == hetero.node_types.index(name)
        y = check_labels(store.y, store.num_nodes, task)
        data.y = torch.full((data.num_nodes, *y.shape[1:]), float("nan") if are_numbers(y) else -1, dtype=y.dtype)
        data.y[rows] = y
        for mask in MASKS:
            if (values := store.get(mask)) is not None:
                if not isinstance(values, Tensor) or values.dtype != torch.bool or list(values.shape) != [len(y)]:
                    raise ValueError(f"`{mask}` of {name!r} must be booleans, one for each of its {len(y)} nodes.")
                data[mask] = torch.zeros(data.num_nodes, dtype=torch.bool).masked_scatter(rows, values)
