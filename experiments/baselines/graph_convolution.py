"""GraphConvolution: Kipf and Welling's network, each layer one pass over any plan."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpnn.engine import Plan, propagate
from gpnn.nn import MaskKey
from gpnn.nn.cell import build_cell
from gpnn.nn.layers import FeatureLinear, drop_entries, glorot

_INPUT_LAYER, _HIDDEN_LAYER = 0, 1  # layers of the random masks


class GraphConvolution(nn.Module):
    """Z = Â ReLU(Â X W₀ + b₀) W₁ + b₁ (Kipf and Welling 2017, equation 9), Â being the plan's propagation.

    Under a synchronous plan of one round, normalised symmetrically with self-loops, Â is theirs. Under a partitioned
    plan a layer sends inside the subgraphs and then over the cut.

    Args:
        in_channels: number of features F.
        hidden_channels: width of the hidden layer.
        out_channels: number of classes C.
        dropout: probability that an entry of the features, or of the hidden layer, is dropped.
        seed: where the parameters start from.

    >>> import gpnn
    >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> plan = gpnn.lower(ring, gpnn.schedule.synchronous(ring, rounds=1), normalization="symmetric", self_loops=True)
    >>> GraphConvolution(4, 8, 2)(torch.ones(3, 4), plan).shape
    torch.Size([3, 2])
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, *, dropout: float = 0.5, seed: int = 0
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.dropout = dropout
        self.encoder = FeatureLinear(in_channels, hidden_channels, generator, bias=False)
        self.hidden_bias = nn.Parameter(torch.zeros(hidden_channels))
        self.weight = nn.Parameter(glorot(hidden_channels, out_channels, generator))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.smooth = build_cell("identity", "linear", "mean", {"alpha": 0.0}, hidden_channels, 1, generator)

    def forward(self, x: Tensor, plan: Plan, key: MaskKey | None = None) -> Tensor:
        """The scores of every node, `[N, C]`."""
        key = (key or MaskKey.random()) if self.training else None
        hidden = self._propagate(self.encoder(x, self.dropout, key, _INPUT_LAYER), plan) + self.hidden_bias
        hidden = drop_entries(torch.relu(hidden), self.dropout, key, _HIDDEN_LAYER)
        return self._propagate(hidden @ self.weight, plan) + self.bias

    def _propagate(self, state: Tensor, plan: Plan) -> Tensor:
        found = propagate(self.smooth, plan, state)
        assert isinstance(found, Tensor)
        return found
