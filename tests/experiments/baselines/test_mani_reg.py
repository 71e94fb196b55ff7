import numpy as np
import torch
from torch_geometric.data import Data

from experiments.baselines import fit_predict
from experiments.baselines.mani_reg import FLOOR
from experiments.baselines.visible import labelled, neighbours


def test_agrees_with_the_closed_form(planted: Data) -> None:
    """The normal equations of Laplacian regularised least squares with a linear function, solved densely."""
    x = planted.x.to_dense().double().numpy()
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.hstack([x / np.where(norm > 0, norm, 1), np.ones((len(x), 1))])
    nodes, classes = labelled(planted, "train")
    adjacency = neighbours(planted).toarray()
    laplacian = np.diag(adjacency.sum(1)) - adjacency
    left = x[nodes].T @ x[nodes] + 0.3 * np.eye(x.shape[1]) + 0.02 * x.T @ laplacian @ x
    weight = np.linalg.solve(left, x[nodes].T @ np.eye(3)[classes])
    scores = np.maximum(x @ weight, FLOOR)
    expected = scores / scores.sum(1, keepdims=True)
    found = fit_predict("mani_reg", planted, ridge=0.3, smoothness=0.02)
    torch.testing.assert_close(found.double(), torch.from_numpy(expected), atol=5e-3, rtol=0)
