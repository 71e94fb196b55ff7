"""Statistics: how large a dataset is (the paper's Table 1)."""

from __future__ import annotations

from experiments.harness.kinds.baseline import load_data, small_data
from experiments.harness.kinds.kind import Kind, Metrics, unknown_keys
from experiments.harness.settings import Settings


def run_statistics(settings: Settings, seed: int) -> Metrics:
    """Nodes, edges, classes, features and label rate as the paper counts them.

    An edge is a pair of adjacency entries, one each way; the label rate is the training nodes' share of all nodes.
    """
    import torch

    data = load_data(settings)
    x = data.get("x")
    rows = x if x.layout == torch.strided else x.crow_indices().diff()[:, None]
    return {
        "nodes": data.num_nodes,
        "edges": data.num_edges // 2,
        "classes": data.num_classes,
        "features": x.shape[1],
        "label_rate": int(data.train_mask.sum()) / data.num_nodes,
        "train_nodes": int(data.train_mask.sum()),
        "val_nodes": int(data.val_mask.sum()),
        "test_nodes": int(data.test_mask.sum()),
        "nodes_with_features": int((rows != 0).any(1).sum()),
    }


def _shrink(settings: Settings) -> Settings:
    return {**settings, "data": small_data(settings)}


STATISTICS = Kind(run_statistics, _shrink, lambda settings: unknown_keys(settings, {"kind": None, "data": None}))
