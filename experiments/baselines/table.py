"""The table of baselines, and the two doors to it: probabilities, and metrics."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from experiments.baselines.deepwalk import deepwalk
from experiments.baselines.diel import diel
from experiments.baselines.feat import feat
from experiments.baselines.gcn import gcn
from experiments.baselines.gcn_partition import gcn_partition
from experiments.baselines.ggnn import ggnn
from experiments.baselines.gpnn import gpnn
from experiments.baselines.ica import ica
from experiments.baselines.lp import lp
from experiments.baselines.mani_reg import mani_reg
from experiments.baselines.planetoid_inductive import planetoid_inductive
from experiments.baselines.planetoid_transductive import planetoid_transductive
from experiments.baselines.semi_emb import semi_emb
from experiments.baselines.visible import visible_data
from gpnn.check import check_options
from gpnn.data import check_data, recall_at_k
from gpnn.train import score
from gpnn.train.objective import SPLITS, Examples
from gpnn.train.task import task_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

Baseline = Callable[..., Tensor]  # (data, *, seed=0, **options) -> probabilities [N, C]

BASELINES: dict[str, Baseline] = {
    "feat": feat,
    "mani_reg": mani_reg,
    "semi_emb": semi_emb,
    "lp": lp,
    "deepwalk": deepwalk,
    "ica": ica,
    "planetoid_transductive": planetoid_transductive,
    "planetoid_inductive": planetoid_inductive,
    "gcn": gcn,
    "gcn_partition": gcn_partition,
    "ggnn": ggnn,
    "gpnn": gpnn,
    "diel": diel,
}


def fit_predict(name: str, data: Data, *, seed: int = 0, **options: Any) -> Tensor:
    """The class probabilities of every node by a baseline, float32, `[N, C]`; rows sum to one.

    It trains on the nodes of `train_mask` and selects on those of `val_mask`; labels of other nodes are hidden from it.

    Args:
        name: a name of `BASELINES`.
        data: edges, labels and masks, and features, dense or sparse CSR, where the method needs them.
        seed: the same seed gives the same bits.
        **options: the method's own, see its docstring.

    Raises:
        ValueError: for an unknown name or option, or where the method needs features and there are none.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> chain = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])
    >>> ends = torch.tensor([True, False, False, True])
    >>> data = Data(edge_index=chain, y=torch.tensor([0, 0, 1, 1]), train_mask=ends, num_nodes=4)
    >>> fit_predict("lp", data).argmax(1).tolist()
    [0, 0, 1, 1]
    """
    check_baseline(name, options)
    return BASELINES[name](visible_data(data), seed=seed, **options)


def run_baseline(name: str, data: Data, seed: int = 0, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The metrics of one run of a baseline: `val_accuracy`, `test_accuracy`, …, `seconds`.

    Where `data` has gold pairs (DIEL), `test_recall` is their recall at `data.recall_k`.

    Args:
        name: a name of `BASELINES`.
        data: as for :func:`fit_predict`.
        seed: of the run.
        options: the method's own.
    """
    began = time.perf_counter()
    probabilities = fit_predict(name, data, seed=seed, **(options or {}))
    metrics: dict[str, Any] = {"baseline": name, "seed": seed, "seconds": time.perf_counter() - began}
    examples = Examples.from_data(check_data(data))
    logits = probabilities.clamp(min=1e-12).log()
    for split in SPLITS:
        metrics |= score(logits, task_of(data), examples, split, ("accuracy", "macro_f1"))
    if data.get("gold_class") is not None:
        metrics["test_recall"] = recall_at_k(data, probabilities)
    return metrics


def baseline_options(name: str) -> list[str]:
    """The options that a baseline takes.

    >>> baseline_options("feat")
    ['strength']
    """
    return [key for key in inspect.signature(BASELINES[name]).parameters if key not in ("data", "seed")]


def check_baseline(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown baseline or option, naming the choices.

    Raises:
        ValueError: see above.
    """
    if name not in BASELINES:
        raise ValueError(f"A baseline must be one of {', '.join(BASELINES)}. Got {name!r}.")
    check_options(f"the baseline {name!r}", options, baseline_options(name))
