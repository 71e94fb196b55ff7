"""run_peer: one method on one graph, the best of its trials on validation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from experiments.peers.networks import PlainNetwork, ResidualNetwork, WideNetwork, adjacency, neighbour_columns
from gpnn.check import check_choice
from gpnn.data.features import transform_data
from gpnn.graph import as_graph
from gpnn.kernels.execution import choose_device
from gpnn.train.evaluate import score
from gpnn.train.metrics import merit
from gpnn.train.objective import SPLITS, Examples
from gpnn.train.task import Task, task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data


HIDDEN = 64  # channels of networks


class Method(NamedTuple):
    """A network and what is tried of it: every combination of layers, dropout and scale of the features."""

    network: Callable[..., nn.Module]
    convolution: str
    layers: tuple[int, ...]
    dropout: tuple[float, ...]
    scale: tuple[str, ...]
    rate: float
    hidden: int = HIDDEN
    decay: float = 5e-4


NETWORKS = {  # six trials each, as of the trees
    "gcn": Method(PlainNetwork, "gcn", (2, 3, 4), (0.5,), ("rows", "none"), 0.01),
    "residual_gcn": Method(ResidualNetwork, "gcn", (4, 8, 12), (0.2, 0.5), ("none",), 0.003),
    "residual_sage": Method(ResidualNetwork, "sage", (4, 8, 12), (0.2, 0.5), ("none",), 0.003),
    "mlp": Method(ResidualNetwork, "none", (1, 2, 3), (0.2, 0.5), ("none",), 0.003),
}
TREES = tuple(itertools.product((0.03, 0.1), (5, 15, 31)))  # learning rate, leaves
METHODS = (*NETWORKS, "boosted_trees")
PUBLISHED = {  # one trial each: what Luo et al. 2024 ("Classic GNNs are strong baselines") chose for one graph
    "tuned_gcn_computers": Method(WideNetwork, "gcn", (3,), (0.5,), ("rows",), 0.001, 512, 5e-5),
    "tuned_gcn_chameleon": Method(partial(WideNetwork, norm=False), "gcn", (5,), (0.2,), ("none",), 0.005, 512, 1e-3),
}
MOST_COLUMNS = 300  # of boosted trees; of more, those that vary most


def run_peer(
    method: str,
    data: Data,
    seed: int,
    *,
    metric: str = "auto",
    epochs: int = 200,
    patience: int = 40,
    device: str = "cpu",
) -> dict[str, Any]:
    """The metrics of the trial that is best on the validation nodes; edges go both ways.

    Args:
        method: a name of `METHODS` or `PUBLISHED`.
        data: features, labels and masks.
        seed: of weights and masks.
        metric: that chooses.
        epochs: the most of a trial.
        patience: validations without improvement after which it ends.
        device: of networks: "auto", "cpu", "cuda" or "cuda:N"; trees stay on the CPU.
    """
    check_choice("method", method, (*METHODS, *PUBLISHED))
    trees = method == "boosted_trees"
    began, judge = time.perf_counter(), Judge.of(data, metric, torch.device("cpu") if trees else choose_device(device))
    trials = list(_boosted(data, judge, seed) if trees else _networks(method, data, judge, seed, epochs, patience))
    best = max(trials, key=judge.value)
    found: dict[str, Any] = {"metric": judge.metric, "trials": len(trials), "seconds": time.perf_counter() - began}
    for split in SPLITS:
        found |= score(best, judge.task, judge.examples, split)
    return found


class Judge(NamedTuple):
    """What a trial learns from, and the metric that chooses among them."""

    task: Task
    examples: Examples
    metric: str
    device: torch.device

    @classmethod
    def of(cls, data: Data, metric: str, device: torch.device) -> Judge:
        """The judge of a dataset, for outputs on a device."""
        examples = Examples.from_data(data, device)
        task = task_of(data).prepare(examples.target("train"))
        return cls(task, examples, task.choose_metric(metric, examples.target("train")), device)

    def value(self, outputs: Tensor) -> float:
        """How good outputs `[N, C]` are on the validation nodes, higher is better."""
        found = score(outputs, self.task, self.examples, "val", [self.metric])
        return merit(self.metric, found[f"val_{self.metric}"])


def _networks(method: str, data: Data, judge: Judge, seed: int, epochs: int, patience: int) -> Iterator[Tensor]:
    """The outputs `[N, C]` of each trial at its best epoch."""
    tried = (NETWORKS | PUBLISHED)[method]
    weights = adjacency(as_graph(data).to_undirected(), tried.convolution)
    weights = None if weights is None else weights.to(judge.device)
    for scale in tried.scale:
        x = transform_data(data, scale_features=scale).x.to(judge.device)
        for layers, dropout in itertools.product(tried.layers, tried.dropout):
            torch.manual_seed(seed)
            sizes = (x.shape[1], tried.hidden, judge.task.num_outputs, layers, dropout)
            model = tried.network(*sizes, convolution=tried.convolution).to(judge.device)
            yield _train(model, partial(model, x, weights), judge, tried, epochs, patience)


def _train(
    model: nn.Module, forward: Callable[[], Tensor], judge: Judge, method: Method, epochs: int, patience: int
) -> Tensor:
    """The outputs at the best epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=method.rate, weight_decay=method.decay)
    train, target = judge.examples.nodes["train"], judge.examples.target("train")
    best, outputs, since = -np.inf, torch.empty(0), 0
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        judge.task.loss(forward()[train], target).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            now = forward()
        value = judge.value(now)
        if value > best or not len(outputs):
            best, outputs, since = value, now, 0
        else:
            since += 1
        if since >= patience:
            break
    return outputs


def _boosted(data: Data, judge: Judge, seed: int) -> Iterator[Tensor]:
    """The outputs of scikit-learn's boosted trees over the columns and the neighbours'."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    columns = neighbour_columns(_widest(data.x), data.edge_index, data.num_nodes).numpy()
    train, task = judge.examples.nodes["train"].numpy(), judge.task
    regression = task.name == "regression"
    make: Any = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    target: Any = judge.examples.target("train")
    target = task.standardise(target).numpy() if regression else target.numpy()  # type: ignore[attr-defined]
    for rate, leaves in TREES:
        settings = {"learning_rate": rate, "max_leaf_nodes": leaves, "l2_regularization": 1.0}
        settings["min_samples_leaf"] = max(1, min(20, len(train) // 20))
        model = make(**settings, max_iter=100, random_state=seed).fit(columns[train], target)
        if regression:
            found = torch.from_numpy(model.predict(columns)).float()[:, None]
            yield torch.cat([found, torch.zeros(len(found), task.num_outputs - 1)], 1)
            continue
        outputs = torch.full((len(columns), task.num_outputs), -20.0)
        outputs[:, torch.from_numpy(model.classes_)] = torch.from_numpy(model.predict_proba(columns)).float().log()
        yield outputs.clamp(min=-20)


def _widest(x: Tensor) -> Tensor:
    """The columns that vary most, dense, `[N, F]`; where there are not too many, all."""
    if x.layout == torch.strided:
        return x.float()[:, x.float().var(0).argsort(descending=True)[:MOST_COLUMNS]]
    column, value, count = x.col_indices().long(), x.values().double(), x.shape[0]
    total = torch.zeros(x.shape[1], dtype=torch.float64).index_add_(0, column, value)
    square = torch.zeros(x.shape[1], dtype=torch.float64).index_add_(0, column, value**2)
    kept = (square / count - (total / count) ** 2).argsort(descending=True)[:MOST_COLUMNS]
    place = torch.full((x.shape[1],), -1).index_copy_(0, kept, torch.arange(len(kept)))
    rows = torch.repeat_interleave(torch.arange(count), x.crow_indices().diff())
    found = place[column] >= 0
    dense = torch.zeros(count, len(kept))
    return dense.index_put_((rows[found], place[column[found]]), x.values()[found].float(), accumulate=True)
