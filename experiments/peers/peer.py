"""run_peer: one method on one graph, the best of its trials on validation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.peers.networks import PlainGCN, ResidualNetwork, neighbour_columns
from gpnn.check import check_choice
from gpnn.graph import as_graph
from gpnn.train.evaluate import score
from gpnn.train.examples import SPLITS, Examples
from gpnn.train.metrics import merit
from gpnn.train.task import Task, task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Each with the numbers of layers and the learning rates that are tried; eight trials in all, as of the trees.
NETWORKS: dict[str, tuple[Callable[..., nn.Module], tuple[int, ...], tuple[float, ...]]] = {
    "gcn": (PlainGCN, (2, 3), (0.01, 0.003)),
    "residual_gcn": (partial(ResidualNetwork, convolution="gcn"), (4, 6, 8, 12), (0.003,)),
    "residual_sage": (partial(ResidualNetwork, convolution="sage"), (4, 6, 8, 12), (0.003,)),
    "mlp": (partial(ResidualNetwork, convolution="none"), (1, 2), (0.01, 0.003)),
}
METHODS = (*NETWORKS, "boosted_trees")
DROPOUTS = (0.2, 0.5)
MOST_COLUMNS = 300  # of boosted trees; of more, those that vary most


def run_peer(method: str, data: Data, seed: int, *, epochs: int = 300, patience: int = 60) -> dict[str, Any]:
    """The metrics of the trial that is best on the validation nodes; edges go both ways.

    Args:
        method: a name of `METHODS`.
        data: features, labels and masks.
        seed: of weights and masks.
        epochs: the most of a trial.
        patience: validations without improvement after which it ends.
    """
    check_choice("method", method, METHODS)
    began, examples = time.perf_counter(), Examples.from_data(data)
    task = task_of(data).prepare(examples.target("train"))
    metric = task.choose_metric("auto", examples.target("train"))
    settings = (data, task, examples, seed)
    trials = list(_boosted(*settings) if method == "boosted_trees" else _networks(method, *settings, epochs, patience))
    values = [merit(metric, score(each, task, examples, "val", [metric])[f"val_{metric}"]) for each in trials]
    best = trials[int(np.argmax(values))]
    found: dict[str, Any] = {"metric": metric, "trials": len(trials), "seconds": time.perf_counter() - began}
    for split in SPLITS:
        found |= score(best, task, examples, split)
    return found


def _networks(
    method: str, data: Data, task: Task, examples: Examples, seed: int, epochs: int, patience: int
) -> Iterator[Tensor]:
    """The outputs `[N, C]` of each trial at its best epoch."""
    metric = task.choose_metric("auto", examples.target("train"))
    make, depths, rates = NETWORKS[method]
    graph = as_graph(data).to_undirected()
    edge_index, x = torch.stack([graph.src, graph.dst]), _dense(data)
    for layers, dropout, rate in itertools.product(depths, DROPOUTS, rates):
        torch.manual_seed(seed)
        model = make(x.shape[1], 64, task.num_outputs, layers, dropout)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)
        best, outputs, since = -np.inf, None, 0
        for _ in range(epochs):
            model.train()
            optimizer.zero_grad()
            task.loss(model(x, edge_index)[examples.nodes["train"]], examples.target("train")).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                now = model(x, edge_index)
            value = merit(metric, score(now, task, examples, "val", [metric])[f"val_{metric}"])
            best, outputs, since = (value, now, 0) if value > best else (best, outputs, since + 1)
            if since >= patience:
                break
        yield now if outputs is None else outputs


def _boosted(data: Data, task: Task, examples: Examples, seed: int) -> Iterator[Tensor]:
    """The outputs of scikit-learn's boosted trees over the columns and the neighbours'."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    x = _dense(data)
    kept = x.var(0).argsort(descending=True)[:MOST_COLUMNS]
    columns = neighbour_columns(x[:, kept], data.edge_index, data.num_nodes).numpy()
    train = examples.nodes["train"].numpy()
    regression = task.name == "regression"
    make: Any = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    target: Any = examples.target("train")
    target = task.standardise(target).numpy() if regression else target.numpy()  # type: ignore[attr-defined]
    for rate, leaves, ridge in itertools.product((0.03, 0.1), (7, 31), (0.0, 1.0)):
        settings = {"learning_rate": rate, "max_leaf_nodes": leaves, "l2_regularization": ridge}
        settings["min_samples_leaf"] = max(1, min(20, len(train) // 20))
        model = make(**settings, max_iter=150, random_state=seed).fit(columns[train], target)
        if regression:
            found = torch.from_numpy(model.predict(columns)).float()[:, None]
            yield torch.cat([found, torch.zeros(len(found), task.num_outputs - 1)], 1)
            continue
        outputs = torch.full((len(columns), task.num_outputs), -20.0)
        outputs[:, torch.from_numpy(model.classes_)] = torch.from_numpy(model.predict_proba(columns)).float().log()
        yield outputs.clamp(min=-20)


def _dense(data: Data) -> Tensor:
    x = data.x if data.x.layout == torch.strided else data.x.to_dense()
    return x.float()
