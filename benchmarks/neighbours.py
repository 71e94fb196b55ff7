"""What do PyG, DGL, scikit-learn and gpnn come to on the same task?

    python benchmarks/neighbours.py --out benchmarks/results/neighbours.md

1,797 handwritten digits joined to their nearest neighbours, 100 of them with a label, 300 for validation, 1,397 for
the test: ten draws of this split, the same for all. Every network has a grid of two settings, scikit-learn's methods
four or eight; the setting with the best mean validation accuracy over the splits is the one whose test accuracy
counts. The networks train up to 200 epochs, stop after 50 without a better validation accuracy, and keep the weights
of the best epoch. DGL takes part where it is installed: `pip install dgl==1.1.3` runs with today's PyTorch, on the
CPU with Python 3.11. CPU seconds of one fit, one thread, median over the settings, are an impression of the cost on a
graph this small.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("DGLBACKEND", "pytorch")
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import gpnn
from experiments.harness.machine import describe_machine

WIDTH, EPOCHS, PATIENCE = 64, 200, 50
Score = tuple[float, float]  # validation and test accuracy
Fit = Callable[..., Score]


def fit_gpnn(data: Data, seed: int, **options: Any) -> Score:
    """The default recipe of gpnn but for the options."""
    classifier = gpnn.GPNNClassifier(epochs=EPOCHS, patience=PATIENCE, seed=seed, **options).fit(data)
    return score(data, torch.from_numpy(classifier.predict(data)))


def fit_pyg_gcn(data: Data, seed: int, *, dropout: float) -> Score:
    """Two layers of PyG's GCNConv."""
    from torch_geometric.nn import GCNConv

    torch.manual_seed(seed)
    first, second = GCNConv(data.x.shape[1], WIDTH, cached=True), GCNConv(WIDTH, data.num_classes, cached=True)
    model = nn.ModuleList([first, second])

    def forward() -> Tensor:
        hidden = drop(first(drop(data.x, dropout, model), data.edge_index).relu(), dropout, model)
        return second(hidden, data.edge_index)

    return train(model, forward, data)


def fit_pyg_appnp(data: Data, seed: int, *, alpha: float) -> Score:
    """A perceptron with dropout 0.5 whose answers PyG's APPNP spreads in ten steps."""
    from torch_geometric.nn import APPNP

    torch.manual_seed(seed)
    first, second = nn.Linear(data.x.shape[1], WIDTH), nn.Linear(WIDTH, data.num_classes)
    spread, model = APPNP(10, alpha, cached=True), nn.ModuleList([first, second])

    def forward() -> Tensor:
        hidden = drop(first(drop(data.x, 0.5, model)).relu(), 0.5, model)
        return spread(second(hidden), data.edge_index)

    return train(model, forward, data)


def fit_dgl_gcn(data: Data, seed: int, *, dropout: float) -> Score:
    """Two layers of DGL's GraphConv; self-loops are added, as GCNConv does by itself."""
    import dgl
    from dgl.nn import GraphConv

    torch.manual_seed(seed)
    graph = dgl.add_self_loop(dgl.graph((data.edge_index[0], data.edge_index[1]), num_nodes=data.num_nodes))
    first, second = GraphConv(data.x.shape[1], WIDTH), GraphConv(WIDTH, data.num_classes)
    model = nn.ModuleList([first, second])

    def forward() -> Tensor:
        return second(graph, drop(first(graph, drop(data.x, dropout, model)).relu(), dropout, model))

    return train(model, forward, data)


def fit_label_spreading(data: Data, seed: int, *, alpha: float, n_neighbors: int) -> Score:
    """scikit-learn's LabelSpreading, which makes its own graph of the pixels."""
    from sklearn.semi_supervised import LabelSpreading

    known = np.where(data.train_mask.numpy(), data.y.numpy(), -1)
    model = LabelSpreading(kernel="knn", alpha=alpha, n_neighbors=n_neighbors).fit(data.x.numpy(), known)
    return score(data, torch.from_numpy(model.transduction_))


def fit_logistic_regression(data: Data, seed: int, *, C: float) -> Score:
    """scikit-learn's LogisticRegression on the pixels alone."""
    from sklearn.linear_model import LogisticRegression

    train_mask = data.train_mask.numpy()
    model = LogisticRegression(C=C, max_iter=2000).fit(data.x.numpy()[train_mask], data.y.numpy()[train_mask])
    return score(data, torch.from_numpy(model.predict(data.x.numpy())))


def train(model: nn.Module, forward: Callable[[], Tensor], data: Data) -> Score:
    """Adam until validation no longer improves; what the best epoch's weights come to."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, since = (0.0, 0.0), 0
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward()[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            now = score(data, forward().argmax(1))
        since = 0 if now[0] > best[0] else since + 1
        best = now if now[0] > best[0] else best
        if since >= PATIENCE:
            break
    return best


def drop(x: Tensor, share: float, model: nn.Module) -> Tensor:
    return nn.functional.dropout(x, share, model.training)


def score(data: Data, answer: Tensor) -> Score:
    """Accuracy on the validation and on the test nodes."""
    right = answer == data.y
    return float(right[data.val_mask].float().mean()), float(right[data.test_mask].float().mean())


class Method(NamedTuple):
    """A method: its library, what runs it, and the values of each of its settings."""

    library: str
    fit: Fit
    grid: Mapping[str, Sequence[Any]]

    def settings(self) -> list[dict[str, Any]]:
        return [dict(zip(self.grid, values)) for values in itertools.product(*self.grid.values())]


LAYERS = {"dropout": (0.0, 0.5)}
METHODS = {
    "gpnn, default recipe": Method("gpnn", fit_gpnn, {"rounds": (3, 5)}),
    "PyG, APPNP": Method("torch_geometric", fit_pyg_appnp, {"alpha": (0.1, 0.2)}),
    "PyG, GCN of two layers": Method("torch_geometric", fit_pyg_gcn, LAYERS),
    "DGL, GCN of two layers": Method("dgl", fit_dgl_gcn, LAYERS),
    "scikit-learn, label spreading": Method(
        "sklearn", fit_label_spreading, {"alpha": (0.01, 0.1, 0.2, 0.5), "n_neighbors": (5, 10)}
    ),
    "scikit-learn, logistic regression without the graph": Method(
        "sklearn", fit_logistic_regression, {"C": (0.1, 1.0, 10.0, 100.0)}
    ),
}


class Row(NamedTuple):
    """What a method came to with the setting that validation chose."""

    name: str
    setting: dict[str, Any]
    validation: list[float]
    test: list[float]
    seconds: float


def measure(name: str, method: Method, splits: list[Data]) -> Row:
    """Every setting on every split; the one with the best mean validation accuracy."""
    rows = []
    for setting in method.settings():
        began = time.process_time()
        scores = [method.fit(data, seed, **setting) for seed, data in enumerate(splits)]
        seconds = (time.process_time() - began) / len(splits)
        validation, test = (list(column) for column in zip(*scores))
        rows.append(Row(name, setting, validation, test, seconds))
        print(name, setting, f"validation {100 * statistics.mean(validation):.2f}", file=sys.stderr)
    best = max(rows, key=lambda row: statistics.mean(row.validation))
    return best._replace(seconds=statistics.median(row.seconds for row in rows))


def write(rows: list[Row], left_out: list[str], num_splits: int) -> str:
    """The result as Markdown."""
    lines = ["# The same task in four libraries", "", "    python benchmarks/neighbours.py --out FILE", ""]
    lines += [(__doc__ or "").split("\n\n", 2)[2].strip(), "", f"Machine: {describe_machine()}; {versions()}.", ""]
    lines += [f"Accuracy in percent, mean ± sample standard deviation over {num_splits} splits:", ""]
    lines += ["| | test | validation | chosen | CPU s |", "|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: -statistics.mean(row.test)):
        chosen = ", ".join(f"{key} {value}" for key, value in row.setting.items())
        spread = statistics.stdev(row.test) if len(row.test) > 1 else 0.0
        lines.append(
            f"| {row.name} | {100 * statistics.mean(row.test):.1f} ± {100 * spread:.1f} "
            f"| {100 * statistics.mean(row.validation):.1f} | {chosen} | {row.seconds:.2f} |"
        )
    lines += ["", *(f"{name}: not installed, left out." for name in left_out)]
    return "\n".join(lines).rstrip() + "\n"


def versions() -> str:
    names = ("torch_geometric", "dgl", "scikit-learn")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names if find_spec(_module(name)))


def _module(name: str) -> str:
    return "sklearn" if name == "scikit-learn" else name


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--splits", type=int, default=10, help="draws of the split")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    splits = [gpnn.load_dataset("digits", seed=seed) for seed in range(arguments.splits)]
    here = {name: method for name, method in METHODS.items() if find_spec(method.library)}
    rows = [measure(name, method, splits) for name, method in here.items()]
    arguments.out.write_text(write(rows, [name for name in METHODS if name not in here], len(splits)), encoding="utf-8")


if __name__ == "__main__":
    main()
