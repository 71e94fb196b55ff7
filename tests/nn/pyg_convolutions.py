"""Every convolution of `torch_geometric.nn.conv`: how the contract of `Scheduled` makes it, or why it is refused."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch_geometric import nn as pyg

WIDTH, ATTRIBUTES, TYPES = 4, 2, 5


def mlp(size: int, out: int = WIDTH) -> nn.Module:
    return nn.Sequential(nn.Linear(size, 6), nn.ReLU(), nn.Linear(6, out))


def _pna() -> nn.Module:
    deg = torch.tensor([1, 4, 3, 2, 1])
    return pyg.PNAConv(WIDTH, WIDTH, ["mean", "max"], ["identity", "amplification"], deg, edge_dim=ATTRIBUTES)


ACCEPTED: dict[str, Callable[[], nn.Module]] = {
    "SimpleConv": lambda: pyg.SimpleConv(aggr="mean", combine_root="sum"),
    "GCNConv": lambda: pyg.GCNConv(WIDTH, WIDTH),
    "ChebConv": lambda: pyg.ChebConv(WIDTH, WIDTH, K=3),
    "SAGEConv": lambda: pyg.SAGEConv(WIDTH, WIDTH),
    "GraphConv": lambda: pyg.GraphConv(WIDTH, WIDTH),
    "GatedGraphConv": lambda: pyg.GatedGraphConv(WIDTH, num_layers=1),
    "ResGatedGraphConv": lambda: pyg.ResGatedGraphConv(WIDTH, WIDTH, edge_dim=ATTRIBUTES),
    "GATConv": lambda: pyg.GATConv(WIDTH, WIDTH // 2, heads=2, edge_dim=ATTRIBUTES),
    "GATv2Conv": lambda: pyg.GATv2Conv(WIDTH, WIDTH // 2, heads=2, edge_dim=ATTRIBUTES),
    "TransformerConv": lambda: pyg.TransformerConv(WIDTH, WIDTH, edge_dim=ATTRIBUTES),
    "AGNNConv": lambda: pyg.AGNNConv(),
    "TAGConv": lambda: pyg.TAGConv(WIDTH, WIDTH),
    "GINConv": lambda: pyg.GINConv(mlp(WIDTH)),
    "GINEConv": lambda: pyg.GINEConv(mlp(WIDTH), edge_dim=ATTRIBUTES),
    "ARMAConv": lambda: pyg.ARMAConv(WIDTH, WIDTH),
    "SGConv": lambda: pyg.SGConv(WIDTH, WIDTH, K=2),
    "SSGConv": lambda: pyg.SSGConv(WIDTH, WIDTH, alpha=0.1, K=2),
    "APPNP": lambda: pyg.APPNP(K=1, alpha=0.1),
    "MFConv": lambda: pyg.MFConv(WIDTH, WIDTH),
    "RGCNConv": lambda: pyg.RGCNConv(WIDTH, WIDTH, num_relations=TYPES),
    "FastRGCNConv": lambda: pyg.FastRGCNConv(WIDTH, WIDTH, num_relations=TYPES),
    "RGATConv": lambda: pyg.RGATConv(WIDTH, WIDTH, num_relations=TYPES, edge_dim=ATTRIBUTES),
    "GMMConv": lambda: pyg.GMMConv(WIDTH, WIDTH, dim=ATTRIBUTES, kernel_size=3),
    "NNConv": lambda: pyg.NNConv(WIDTH, WIDTH, mlp(ATTRIBUTES, WIDTH * WIDTH)),
    "CGConv": lambda: pyg.CGConv(WIDTH, dim=ATTRIBUTES),
    "EdgeConv": lambda: pyg.EdgeConv(mlp(2 * WIDTH)),
    "FeaStConv": lambda: pyg.FeaStConv(WIDTH, WIDTH, heads=2),
    "LEConv": lambda: pyg.LEConv(WIDTH, WIDTH),
    "PNAConv": _pna,
    "ClusterGCNConv": lambda: pyg.ClusterGCNConv(WIDTH, WIDTH),
    "GENConv": lambda: pyg.GENConv(WIDTH, WIDTH, norm="layer", edge_dim=ATTRIBUTES),
    "GCN2Conv": lambda: pyg.GCN2Conv(WIDTH, alpha=0.3, theta=0.5, layer=1),
    "WLConvContinuous": lambda: pyg.WLConvContinuous(),
    "FiLMConv": lambda: pyg.FiLMConv(WIDTH, WIDTH, num_relations=TYPES),
    "SuperGATConv": lambda: pyg.SuperGATConv(WIDTH, WIDTH),
    "FAConv": lambda: pyg.FAConv(WIDTH),
    "EGConv": lambda: pyg.EGConv(WIDTH, WIDTH, num_heads=2, num_bases=2),
    "PDNConv": lambda: pyg.PDNConv(WIDTH, WIDTH, edge_dim=ATTRIBUTES, hidden_channels=6),
    "GeneralConv": lambda: pyg.GeneralConv(WIDTH, WIDTH, in_edge_channels=ATTRIBUTES),
    "LGConv": lambda: pyg.LGConv(),
    "AntiSymmetricConv": lambda: pyg.AntiSymmetricConv(WIDTH, phi=pyg.GATConv(WIDTH, WIDTH, edge_dim=ATTRIBUTES)),
    "DirGNNConv": lambda: pyg.DirGNNConv(pyg.SAGEConv(WIDTH, WIDTH)),
    "MixHopConv": lambda: pyg.MixHopConv(WIDTH, WIDTH // 2, powers=[0, 1]),
    "GPSConv": lambda: pyg.GPSConv(WIDTH, pyg.GINEConv(mlp(WIDTH), edge_dim=ATTRIBUTES), heads=2),
}

NEEDS_A_PACKAGE = {"SplineConv": "pyg-lib"}  # taken by its arguments, and not tried here
WITHOUT_WEIGHTS = {"FAConv"}  # normalises, and then takes no weights
ALL_ROWS = {"GPSConv"}  # attends over the nodes that a phase reads
SEVERAL_HOPS_OR_DEGREES = {
    "APPNP", "ARMAConv", "ChebConv", "DirGNNConv", "EGConv", "FAConv", "GCN2Conv", "GCNConv", "LGConv", "MixHopConv",
    "PDNConv", "SGConv", "SSGConv", "TAGConv",
}  # fmt: skip
AS_THE_ONE_INSIDE = {"AntiSymmetricConv"}
LOCAL = set(ACCEPTED) - ALL_ROWS - SEVERAL_HOPS_OR_DEGREES - AS_THE_ONE_INSIDE
REFUSED = {
    "types of nodes": {"HANConv", "HEATConv", "HGTConv", "HeteroConv"},
    "positions of the nodes": {"PPFConv", "PointGNNConv", "PointNetConv", "PointTransformerConv"},
    "edges of its own making": {"DynamicEdgeConv", "GravNetConv", "XConv"},
    "other edges than a graph's": {"FusedGATConv", "HypergraphConv", "SignedConv"},
    "a base class": {"MessagePassing"},
    "edges as cuGraph has them": {"CuGraphGATConv", "CuGraphRGCNConv", "CuGraphSAGEConv"},
    "other states than one row per node": {"DNAConv", "MeshCNNConv", "PANConv", "WLConv"},
}
