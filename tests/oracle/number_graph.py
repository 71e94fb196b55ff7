"""A graph whose nodes have a number that their neighbours tell better than their own features."""

import numpy as np
import torch
from torch_geometric.data import Data


def number_graph(
    num_nodes: int = 300, *, noise: float = 1.5, skewed: bool = False, seed: int = 0, unit: float = 1.0
) -> Data:
    """Nodes in a square, joined to their six nearest; the number is smooth in the place, the features are noisy views.

    Args:
        num_nodes: N.
        noise: of each feature, in deviations of the number; averaging over neighbours removes most of it.
        skewed: whether the number is the exponential of such a one.
        seed: of places, noise and masks.
        unit: factor of the number.
    """
    random = np.random.default_rng(seed)
    place = random.random((num_nodes, 2))
    height = np.sin(4 * place[:, 0]) + np.cos(3 * place[:, 1])
    height = (height - height.mean()) / height.std()
    distance = np.linalg.norm(place[:, None] - place[None], axis=2)
    near = np.argsort(distance, axis=1)[:, 1:7]
    ends = {(a, int(b)) for a in range(num_nodes) for b in near[a]}
    edges = sorted(ends | {(b, a) for a, b in ends})
    x = height[:, None] + noise * random.standard_normal((num_nodes, 8))
    y = np.exp(1.5 * height) if skewed else height
    order = random.permutation(num_nodes)
    masks = {name: torch.zeros(num_nodes, dtype=torch.bool) for name in ("train_mask", "val_mask", "test_mask")}
    for mask, nodes in zip(masks.values(), np.split(order, [num_nodes // 2, 3 * num_nodes // 4])):
        mask[nodes] = True
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.tensor(edges).T.contiguous(),
        y=torch.from_numpy(unit * y),
        **masks,
    )
