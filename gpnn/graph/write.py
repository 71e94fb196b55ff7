"""Writers: a graph as PyG's, scipy's and networkx's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    from torch_geometric.data import Data

    from gpnn.graph.graph import Graph


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
