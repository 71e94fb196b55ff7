"""Conversion of graphs from and to the objects of PyG, scipy and networkx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gpnn.csr import pointers
from gpnn.graph.edges import check_ids

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    from torch_geometric.data import Data, HeteroData

    from gpnn.graph.graph import Graph


class Fields(NamedTuple):
    """The arguments of :class:`gpnn.Graph`, unchecked."""

    src: Tensor
    dst: Tensor
    num_nodes: int
    edge_type: Tensor | None
    edge_weight: Tensor | None


def read_data(data: Data) -> Fields:
    """See :meth:`gpnn.Graph.from_data`."""
    if data.num_nodes is None:
        raise ValueError("`data` must know its number of nodes (x, y or num_nodes). Got none.")
    src, dst, kind, weight = read_edges(data)
    return Fields(src, dst, data.num_nodes, kind, weight)


def read_edges(data: Data) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Sender, receiver, type and weight of each edge of a PyG `Data`, unchecked."""
    edge_index = data.edge_index
    if edge_index is None:
        raise ValueError("`data` must have `edge_index`. Got none.")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        hint = " (`edge_index.t()` turns it)" if edge_index.dim() == 2 and edge_index.shape[1] == 2 else ""
        raise ValueError(f"`edge_index` must have shape [2, E]{hint}. Got {list(edge_index.shape)}.")
    return edge_index[0], edge_index[1], data.get("edge_type"), edge_weight(data)


def read_hetero(data: HeteroData) -> Fields:
    """See :meth:`gpnn.Graph.from_hetero`."""
    for name in data.node_types:
        if data[name].num_nodes is None:
            raise ValueError(f"`data` must know its number of {name!r} nodes (x or num_nodes). Got none.")
    sizes = [data[name].num_nodes for name in data.node_types]
    start = dict(zip(data.node_types, pointers(sizes).tolist()))
    stores = [(data[kind], kind) for kind in data.edge_types]
    if not stores:
        raise ValueError("`data` must have at least one edge type. Got none.")
    for store, kind in stores:
        _check_ends(kind, store.get("edge_index"), data)
    lengths = [store.edge_index.shape[1] for store, _ in stores]
    weights = [_checked_weight(kind, store, length) for (store, kind), length in zip(stores, lengths)]
    weighted = any(weight is not None for weight in weights)
    filled = [or_fill(weight, length, 1.0) for weight, length in zip(weights, lengths)]
    return Fields(
        torch.cat([store.edge_index[0] + start[kind[0]] for store, kind in stores]),
        torch.cat([store.edge_index[1] + start[kind[2]] for store, kind in stores]),
        sum(sizes),
        torch.repeat_interleave(torch.arange(len(stores)), torch.tensor(lengths)),
        torch.cat(filled) if weighted else None,
    )


def read_scipy(matrix: scipy.sparse.spmatrix) -> Fields:
    """See :meth:`gpnn.Graph.from_scipy`."""
    coo = matrix.tocoo()
    if coo.shape[0] != coo.shape[1]:
        raise ValueError(f"An adjacency matrix must be square. Got shape {coo.shape}.")
    weight = torch.from_numpy(coo.data.astype("float64")) if (coo.data != 1).any() else None
    if weight is not None and coo.data.dtype != "float64":
        weight = weight.float()
    src, dst = (torch.from_numpy(ids.astype("int64")) for ids in (coo.row, coo.col))
    return Fields(src, dst, coo.shape[0], None, weight)


def read_networkx(graph: networkx.Graph, nodes: Iterable[Any] | Mapping[Any, int] | None = None) -> Fields:
    """See :meth:`gpnn.Graph.from_networkx`."""
    row = _own_rows(graph) if nodes is None else _given_rows(graph, nodes)
    edges = [(row[u], row[v], attributes) for u, v, attributes in graph.edges(data=True)]
    if not graph.is_directed():
        edges += [(v, u, attributes) for u, v, attributes in edges if u != v]
    edges.sort(key=lambda edge: edge[:2])  # networkx orders them by when their nodes were added
    return Fields(
        torch.tensor([u for u, _, _ in edges], dtype=torch.int64),
        torch.tensor([v for _, v, _ in edges], dtype=torch.int64),
        len(row),
        _attribute(edges, "type", torch.int64, 0),
        _attribute(edges, "weight", torch.float32, 1.0),
    )


def _own_rows(graph: networkx.Graph) -> dict[Any, int]:
    """Nodes that are the integers 0…N−1, each its own row."""
    last = len(graph) - 1
    for node in graph.nodes:
        if not isinstance(node, Integral) or isinstance(node, bool) or not 0 <= int(node) <= last:
            raise ValueError(
                f"A networkx graph must have the nodes 0 to {last}, which are the rows of features and labels; other "
                "names need the node of each row: `gpnn.Graph.from_networkx(graph, nodes=names)`. "
                f"Got {str(node)[:50]!r}."
            )
    return {node: int(node) for node in graph.nodes}


def _given_rows(graph: networkx.Graph, nodes: Iterable[Any] | Mapping[Any, int]) -> dict[Any, int]:
    names = list(nodes)
    row = dict(nodes) if isinstance(nodes, Mapping) else {name: place for place, name in enumerate(names)}
    if len(row) != len(names) or sorted(row.values()) != list(range(len(row))):
        raise ValueError(f"`nodes` must give each of the rows 0 to {len(names) - 1} to one node. Got others.")
    unknown = next((node for node in graph.nodes if node not in row), None)
    if unknown is not None:
        raise ValueError(f"`nodes` must name every node of the graph. Got none for {str(unknown)[:50]!r}.")
    return row


def edge_weight(store: Any) -> Tensor | None:
    """`edge_weight` of a PyG storage, else an `edge_attr` that is one floating-point number per edge."""
    weight, attribute = store.get("edge_weight"), store.get("edge_attr")
    if weight is not None or attribute is None or not attribute.is_floating_point():
        return weight
    return attribute if attribute.dim() == 1 or attribute.shape[1:] == (1,) else None


def _check_ends(kind: tuple[str, str, str], edge_index: Any, data: HeteroData) -> None:
    """Ids of one edge type must be those of its own ends: larger ids are of the next node type."""
    for name in (kind[0], kind[2]):
        if name not in data.node_types:
            raise ValueError(f"The ends of {kind} must be node types of `data`. Got {name!r}.")
    integers = isinstance(edge_index, Tensor) and not edge_index.is_floating_point() and not edge_index.is_complex()
    if not integers or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        got = list(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise ValueError(f"`edge_index` of {kind} must be integers of shape [2, E]. Got {got}.")
    for name, ids in zip((kind[0], kind[2]), edge_index):
        check_ids(f"`edge_index` of {kind} must hold {name} ids", ids, data[name].num_nodes)


def _checked_weight(kind: tuple[str, str, str], store: Any, length: int) -> Tensor | None:
    """The weights of one edge type, one for each edge."""
    weight = edge_weight(store)
    if weight is not None and weight.numel() != length:
        raise ValueError(f"The weights of {kind} must be one for each of its {length} edges. Got {weight.numel()}.")
    return None if weight is None else weight.reshape(-1)


def or_fill(values: Tensor | None, length: int, fill: float) -> Tensor:
    """`values`, or as many times `fill`."""
    return torch.full((length,), fill) if values is None else values


def _attribute(edges: list[tuple[int, int, dict]], name: str, dtype: torch.dtype, default: float) -> Tensor | None:
    if not any(name in attributes for _, _, attributes in edges):
        return None
    return torch.tensor([attributes.get(name, default) for _, _, attributes in edges], dtype=dtype)


def write_data(graph: Graph) -> Data:
    """See :meth:`gpnn.Graph.to_data`."""
    from torch_geometric.data import Data

    data = Data(edge_index=torch.stack([graph.src, graph.dst]), num_nodes=graph.num_nodes)
    if graph.edge_type is not None:
        data.edge_type = graph.edge_type
    if graph.edge_weight is not None:
        data.edge_weight = graph.edge_weight
    return data


def write_scipy(graph: Graph, *, weighted: bool) -> scipy.sparse.csr_matrix:
    """See :meth:`gpnn.Graph.to_scipy`."""
    import numpy as np
    from scipy.sparse import csr_matrix

    if weighted and graph.edge_weight is not None:
        values = graph.edge_weight.numpy()
    else:
        values = np.ones(graph.num_edges, np.float32)
    return csr_matrix((values, (graph.src.numpy(), graph.dst.numpy())), (graph.num_nodes, graph.num_nodes))


def write_networkx(graph: Graph) -> networkx.MultiDiGraph:
    """See :meth:`gpnn.Graph.to_networkx`."""
    import networkx

    made = networkx.MultiDiGraph()
    made.add_nodes_from(range(graph.num_nodes))
    columns = {"type": graph.edge_type, "weight": graph.edge_weight}
    present = {name: values.tolist() for name, values in columns.items() if values is not None}
    for edge, (u, v) in enumerate(zip(graph.src.tolist(), graph.dst.tolist())):
        made.add_edge(u, v, **{name: values[edge] for name, values in present.items()})
    return made
