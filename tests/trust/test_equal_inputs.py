"""The same graph written in another way gives the same answer: types, layouts, orders, repeated edges, empty parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import gpnn
from gpnn import GPNNClassifier, Partition
from gpnn.train.notes import NoteWarning

NUM_NODES = 24
STILL = {"input_dropout": 0.0, "dropout": 0.0, "drop_node": 0.0, "train_options": {"consistency": 0.0}}


def example(**changes: Any) -> Data:
    """Whole numbers as features, so that every floating-point type holds them; three isolated nodes."""
    generator = torch.Generator().manual_seed(3)
    ends = torch.randint(0, NUM_NODES - 3, (2, 40), generator=generator)
    data = Data(
        x=torch.randint(-4, 5, (NUM_NODES, 4), generator=generator).float(),
        edge_index=torch.cat([ends, ends.flip(0)], 1),
        y=torch.arange(NUM_NODES) % 3,
        train_mask=torch.arange(NUM_NODES) < 9,
        val_mask=(torch.arange(NUM_NODES) >= 9) & (torch.arange(NUM_NODES) < 15),
    )
    data.update(changes)
    return data


def answer(data: Data, **options: Any) -> np.ndarray:
    """The probabilities after a short training."""
    settings = {"k": 3, "rounds": 2, "hidden_channels": 6, "epochs": 4, "device": "cpu", **STILL, **options}
    return GPNNClassifier(**settings).fit(data).predict_proba(data)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return answer(example())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_features_of_every_type(expected: np.ndarray, kind: torch.dtype) -> None:
    assert np.array_equal(answer(example(x=example().x.to(kind))), expected)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_sparse_features_of_every_type(expected: np.ndarray, kind: torch.dtype) -> None:
    assert np.allclose(answer(example(x=example().x.to(kind).to_sparse_csr())), expected, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"edge_index": example().edge_index.int()},
        {"y": example().y.to(torch.int8)},
        {"y": example().y.to(torch.uint8)[:, None]},
        {"edge_weight": torch.ones(80)},
        {"edge_weight": torch.ones(80, dtype=torch.int64)},
        {"edge_attr": torch.ones(80, 1)},
    ],
    ids=[
        "int32 edges",
        "int8 labels",
        "uint8 column of labels",
        "unit weights",
        "whole weights",
        "weights as attributes",
    ],
)
def test_other_types_of_the_same_numbers(expected: np.ndarray, changes: dict[str, Tensor]) -> None:
    assert np.allclose(answer(example(**changes)), expected, atol=1e-6)


def test_an_edge_given_twice_weighs_the_sum() -> None:
    edges, weight = example().edge_index, torch.linspace(0.5, 2, 80)
    twice = example(edge_index=torch.cat([edges, edges], 1), edge_weight=torch.cat([weight * 0.25, weight * 0.75]))
    assert np.allclose(answer(twice, k=1), answer(example(edge_weight=weight), k=1), atol=1e-5)


def test_an_edge_of_weight_zero_is_none() -> None:
    """Under a mean; it still joins its ends for a partition, so that there is one part."""
    edges = example().edge_index
    more = torch.cat([edges, torch.tensor([[0, 7, 5, 2], [7, 0, 2, 5]])], 1)
    weight = torch.cat([torch.ones(80), torch.zeros(4)])
    assert np.allclose(answer(example(edge_index=more, edge_weight=weight), k=1), answer(example(), k=1), atol=1e-6)


def test_nodes_in_another_order() -> None:
    data, order = example(), torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(5))
    place = order.argsort()
    masks = {name: data[name][order] for name in ("train_mask", "val_mask")}
    moved = Data(x=data.x[order], y=data.y[order], edge_index=place[data.edge_index], **masks)
    assert np.allclose(answer(moved, k=1), answer(data, k=1)[order.numpy()], atol=1e-4)


def test_a_class_that_no_training_node_has() -> None:
    y = torch.where(torch.arange(NUM_NODES) < 9, torch.arange(NUM_NODES) % 2, torch.arange(NUM_NODES) % 3)
    with pytest.warns(NoteWarning, match="1 classes of validation or test nodes have no training node"):
        probability = answer(example(y=y))
    assert probability.shape == (NUM_NODES, 3)
    assert np.allclose(probability.sum(1), 1, atol=1e-5)


def test_one_class_only() -> None:
    assert np.array_equal(answer(example(y=torch.zeros(NUM_NODES, dtype=torch.int64))), np.ones((NUM_NODES, 1)))


def test_parts_that_are_empty_change_nothing() -> None:
    data, labels = example(), torch.arange(NUM_NODES) % 2
    model = gpnn.nn.GPNN(4, 6, 3, seed=1).eval()
    plans = [
        gpnn.lower(data, gpnn.schedule.partitioned(data, Partition(labels * step, parts), rounds=2))
        for step, parts in ((1, 2), (3, 6))
    ]
    with torch.no_grad():
        for runner in ("fused", "streamed"):
            model.runner = runner
            one, other = (model(data.x, plan) for plan in plans)
            assert torch.allclose(one, other, atol=1e-6)


def test_a_row_outside_the_masks_counts_too() -> None:
    """A node that is in no mask sends messages: a value that is no number there would reach the others."""
    x = example().x.clone()
    x[NUM_NODES - 1, 2] = float("nan")
    with pytest.raises(ValueError, match=r"`x` must be finite\. Got nan at node 23, column 2\."):
        answer(example(x=x))
