import numpy as np
import torch
from torch_geometric.data import Data

import gpnn
from experiments.baselines.graph_convolution import GraphConvolution
from experiments.baselines.visible import simple


def test_agrees_with_the_dense_formula(planted: Data) -> None:
    """Â = D^-½ (A + I) D^-½, Z = Â ReLU(Â X W₀ + b₀) W₁ + b₁."""
    data = simple(planted)
    plan = gpnn.lower(data, gpnn.schedule.synchronous(data, 1), normalization="symmetric", self_loops=True)
    model = GraphConvolution(data.x.shape[1], 5, 3, seed=2).eval()
    for bias in (model.hidden_bias, model.bias):
        torch.nn.init.normal_(bias, generator=torch.Generator().manual_seed(0))
    closed = np.eye(planted.num_nodes, dtype=np.float32)
    closed[tuple(data.edge_index.numpy())] += 1
    scale = np.diag(closed.sum(1) ** -0.5)
    spread = torch.from_numpy(scale @ closed @ scale).float()
    hidden = torch.relu(spread @ data.x.to_dense() @ model.encoder.weight + model.hidden_bias)
    torch.testing.assert_close(model(data.x, plan), spread @ hidden @ model.weight + model.bias)
