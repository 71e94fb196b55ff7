"""What every baseline promises, on one tiny graph."""

from copy import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from experiments.baselines import BASELINES, baseline_options, fit_predict, run_baseline
from gpnn.data import load_dataset
from tests.oracle.parameters import rest_thorough

# enough for the planted graph, so that the whole table runs in seconds
SMALL: dict[str, dict[str, Any]] = {
    "semi_emb": {"steps": 60, "hidden_channels": 8},
    "deepwalk": {"channels": 8, "num_walks": 20},
    "planetoid_transductive": {"steps": 100, "label_pairs": 2000, "walk_rounds": 20, "context_rate": 0.05},
    "planetoid_inductive": {"steps": 100, "label_batches": 10, "walk_batches": 10},
    "gcn": {"epochs": 40},
    "gcn_partition": {"epochs": 40, "k": 3},
    "ggnn": {"epochs": 20, "hidden_channels": 8, "rounds": 2},
    "gpnn": {"epochs": 20, "hidden_channels": 8, "rounds": 2, "k": 3},
}
NEED_FEATURES = {"feat", "mani_reg", "semi_emb", "ica", "planetoid_inductive", "gcn", "gcn_partition"}

SLOW = {"semi_emb", "deepwalk", "planetoid_transductive", "planetoid_inductive"}  # theirs alone are kernels to compile
every_baseline = pytest.mark.parametrize("name", rest_thorough(BASELINES, BASELINES.keys() - SLOW))


_known: dict[str, Tensor] = {}


def reference(name: str, planted: Data) -> Tensor:
    """The baseline's answer to the planted graph, computed once."""
    if name not in _known:
        _known[name] = fit_predict(name, planted, seed=1, **SMALL.get(name, {}))
    return _known[name]


def changed(data: Data, **fields: Any) -> Data:
    other = copy(data)
    for key, value in fields.items():
        other[key] = value
    return other


def relabelled(data: Data, mask: str) -> Data:
    """The same data with every known label of a split changed to the next class."""
    known = data[mask] & (data.y >= 0)
    return changed(data, y=torch.where(known, (data.y + 1) % data.num_classes, data.y))


@every_baseline
@pytest.mark.thorough
def test_gives_probabilities_of_every_node(name: str, planted: Data) -> None:
    found = reference(name, planted)
    assert found.shape == (planted.num_nodes, planted.num_classes)
    assert found.dtype == torch.float32
    assert found.min() >= 0
    torch.testing.assert_close(found.sum(1), torch.ones(planted.num_nodes))


@every_baseline
def test_is_better_than_chance(name: str, planted: Data) -> None:
    found = reference(name, planted).argmax(1)
    right = (found == planted.y)[planted.test_mask].double().mean()
    assert right > 0.6  # three classes


@every_baseline
def test_same_seed_gives_the_same_bits(name: str, planted: Data) -> None:
    torch.rand(3)  # torch's global state must not matter
    again = fit_predict(name, planted, seed=1, **SMALL.get(name, {}))
    assert torch.equal(again, reference(name, planted))


@every_baseline
def test_does_not_read_test_labels(name: str, planted: Data) -> None:
    found = fit_predict(name, relabelled(planted, "test_mask"), seed=1, **SMALL.get(name, {}))
    assert torch.equal(found, reference(name, planted))


@every_baseline
@pytest.mark.thorough
def test_does_not_train_on_validation_labels(name: str, planted: Data) -> None:
    """Wrong validation labels select badly at worst: what is selected was trained on the training labels alone."""
    found = fit_predict(name, relabelled(planted, "val_mask"), seed=1, **SMALL.get(name, {}))
    wrong = (planted.y + 1) % planted.num_classes
    learnt = (found.argmax(1) == wrong)[planted.val_mask].double().mean()
    assert learnt < 0.6


@every_baseline
@pytest.mark.thorough
def test_runs_without_validation_and_test_nodes(name: str, planted: Data) -> None:
    none = torch.zeros_like(planted.val_mask)
    data = changed(planted, val_mask=none, test_mask=none)
    found = fit_predict(name, data, seed=1, **SMALL.get(name, {}))
    assert found.isfinite().all()


@every_baseline
@pytest.mark.thorough
def test_dense_features_or_none(name: str, planted: Data) -> None:
    options = SMALL.get(name, {})
    dense = fit_predict(name, changed(planted, x=planted.x.to_dense()), seed=1, **options)
    torch.testing.assert_close(dense, reference(name, planted), atol=1e-3, rtol=0)
    bare = changed(planted, x=None, num_nodes=planted.num_nodes)
    if name in NEED_FEATURES:
        with pytest.raises(ValueError, match=rf"^The baseline '{name}' must be given features `x`\. Got none\.$"):
            fit_predict(name, bare, seed=1, **options)
    else:
        assert fit_predict(name, bare, seed=1, **options).isfinite().all()


@every_baseline
@pytest.mark.thorough
def test_runs_on_a_class_without_training_nodes_and_a_graph_without_edges(name: str, planted: Data) -> None:
    data = changed(planted, edge_index=planted.edge_index[:, :0], num_classes=planted.num_classes + 1)
    found = fit_predict(name, data, seed=1, **SMALL.get(name, {}))
    assert found.shape == (planted.num_nodes, planted.num_classes + 1)
    torch.testing.assert_close(found.sum(1), torch.ones(planted.num_nodes))


def test_run_baseline_gives_flat_metrics(planted: Data) -> None:
    metrics = run_baseline("lp", planted, 3, {"tolerance": 1e-6})
    assert metrics["baseline"] == "lp"
    assert metrics["seed"] == 3
    probability = fit_predict("lp", planted, tolerance=1e-6).argmax(1)
    for split in ("val", "test"):
        right = (probability == planted.y)[planted[f"{split}_mask"]].double().mean()
        assert metrics[f"{split}_accuracy"] == pytest.approx(float(right))
    assert metrics["seconds"] > 0


def test_run_baseline_gives_recall_where_there_are_gold_pairs() -> None:
    data = load_dataset("diel_like", scale=0.001)
    for name in ("diel", "feat"):
        assert 0 < run_baseline(name, data)["test_recall"] <= 0.617 + 1e-9


def test_unknown_names_list_the_choices(planted: Data) -> None:
    with pytest.raises(ValueError, match=r"A baseline must be one of feat, mani_reg, .* Got 'svm'\."):
        fit_predict("svm", planted)
    with pytest.raises(ValueError, match=r"An option of the baseline 'lp' must be one of .*\. Got sharpness\."):
        fit_predict("lp", planted, sharpness=2)


def test_needs_training_labels(planted: Data) -> None:
    with pytest.raises(ValueError, match=r"`data` must have labels `y` and a `train_mask` to learn from"):
        fit_predict("lp", Data(edge_index=planted.edge_index, num_nodes=planted.num_nodes))


@every_baseline
def test_every_small_option_is_an_option(name: str) -> None:
    assert set(SMALL.get(name, {})) <= set(baseline_options(name))
