"""Clusters: PyG's own graph convolutional network, full-batch or over batches of clusters (Cluster-GCN)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from experiments.harness.kinds.baseline import load_data
from experiments.harness.kinds.kind import SMALL_GRAPH, Kind, Metrics, unknown_keys
from experiments.harness.kinds.training import Clock
from experiments.harness.settings import Settings

if TYPE_CHECKING:
    from torch_geometric.data import Data

SPARSE = 0.1  # of the entries: below it products with a sparse matrix are the faster ones


def run_clusters(settings: Settings, seed: int) -> Metrics:
    """Validation and test accuracy of the best epoch, and the CPU and wall seconds until it and until the target.

    Settings: `data` names the dataset; `gcn` holds the arguments of :func:`train_gcn`; `target` the validation
    accuracy whose time is taken; `device` where to train, the CPU unless it says otherwise.
    """
    device = settings.get("device", "cpu")
    return train_gcn(load_data(settings), seed, settings.get("target"), device=device, **settings.get("gcn", {}))


def train_gcn(
    data: Data,
    seed: int,
    target: float | None = None,
    *,
    clusters: int = 1,
    batch: int = 1,
    hidden_channels: int = 16,
    dropout: float = 0.5,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    epochs: int = 200,
    device: str = "cpu",
) -> Metrics:
    """Two `GCNConv` layers trained as Kipf and Welling do, validated on the whole graph after every epoch.

    Args:
        data: features (rows scaled to sum one here, as a sparse matrix where most are zero), labels and masks.
        seed: of weights, dropout, partition and the order of batches.
        target: validation accuracy whose time is taken.
        clusters: parts of `ClusterData`; 1 trains on the whole graph at once.
        batch: parts that `ClusterLoader` merges to one batch.
        hidden_channels: width of the hidden layer.
        dropout: probability that an entry is dropped.
        learning_rate: of Adam.
        weight_decay: of Adam, on all parameters.
        epochs: passes over all batches.
        device: where to train: "auto", "cpu", "cuda" or "cuda:N"; clusters are cut and merged on the CPU.
    """
    from gpnn.data.features import transform_data
    from gpnn.kernels.execution import choose_device

    where = choose_device(device)
    data = transform_data(data, undirected=True, scale_features="rows")
    if data.x.layout == torch.strided and data.x.count_nonzero() < SPARSE * data.x.numel():
        data.x = data.x.to_sparse_csr()
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(seed)
        model = _GCN(data.x.shape[1], hidden_channels, data.num_classes, dropout).to(where)
        optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
        batches = [data] if clusters == 1 else _cluster_batches(data, clusters, batch, seed)
        data = data.to(where)
        clock, best = Clock(target), {"val_accuracy": -1.0}
        for epoch in range(1, epochs + 1):
            _descend(model, optimizer, batches, where)
            found = _accuracies(model, data)
            clock.epoch(found)
            if found["val_accuracy"] > best["val_accuracy"]:
                best = found | {"best_epoch": epoch}
    return best | clock.metrics() | {"seconds": clock.metrics()["cpu_seconds"], "epochs": epochs}


class _GCN(nn.Module):
    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.dropout = dropout
        self.first = GCNConv(in_channels, hidden_channels)
        self.second = GCNConv(hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.first(self._drop(x), edge_index).relu()
        return self.second(self._drop(hidden), edge_index)

    def _drop(self, x: Tensor) -> Tensor:
        if x.layout == torch.strided or not self.training:
            return nn.functional.dropout(x, self.dropout, self.training)
        values = nn.functional.dropout(x.values(), self.dropout)
        return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape)


def _cluster_batches(data: Data, clusters: int, batch: int, seed: int) -> Iterable[Data]:
    """`ClusterLoader` over `ClusterData`; its parts are pyg-lib's METIS, or where that is missing our `refined`."""
    from torch_geometric.data import Data
    from torch_geometric.loader import ClusterData, ClusterLoader

    from gpnn.partition import partition_graph

    class OurClusterData(ClusterData):  # PyG's class with another partitioner: pyg-lib has no wheel for every torch
        def _metis(self, edge_index: Tensor, num_nodes: int) -> Tensor:
            return partition_graph(data, clusters, "refined", seed).labels

    labelled = Data(x=data.x, edge_index=data.edge_index, y=data.y, train_mask=data.train_mask)
    if labelled.x.layout != torch.strided:
        labelled.x = labelled.x.to_sparse_coo()  # ClusterData cuts rows out, which CSR does not allow
    parts = OurClusterData(labelled, clusters, log=False)
    generator = torch.Generator().manual_seed(seed)
    return ClusterLoader(parts, batch_size=batch, shuffle=True, generator=generator)


def _descend(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[Data], device: torch.device) -> None:
    model.train()
    for batch in batches:
        if not batch.train_mask.any():
            continue
        optimizer.zero_grad()
        batch = batch.to(device)
        x = batch.x.to_sparse_csr() if batch.x.layout == torch.sparse_coo else batch.x
        scores = model(x, batch.edge_index)[batch.train_mask]
        nn.functional.cross_entropy(scores, batch.y[batch.train_mask]).backward()
        optimizer.step()


@torch.no_grad()
def _accuracies(model: nn.Module, data: Data) -> Metrics:
    model.eval()
    right = model(data.x, data.edge_index).argmax(1) == data.y
    return {f"{split}_accuracy": float(right[data[f"{split}_mask"]].float().mean()) for split in ("val", "test")}


def _shrink(settings: Settings) -> Settings:
    gcn = settings.get("gcn", {})
    small = {"epochs": 3, "clusters": min(gcn.get("clusters", 1), 4), "batch": min(gcn.get("batch", 1), 2)}
    return {**settings, "device": "cpu", "data": dict(SMALL_GRAPH), "gcn": {**gcn, **small}}


def _problems(settings: Settings) -> list[str]:
    return unknown_keys(settings, {"kind": None, "data": None, "target": None, "device": None, "gcn": train_gcn})


CLUSTERS = Kind(run_clusters, _shrink, _problems)
