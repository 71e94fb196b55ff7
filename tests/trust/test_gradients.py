"""Gradients of whole models in float64 against central differences along a random direction of all parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import gpnn
from gpnn.data.features import csr_tensor
from gpnn.engine import NORMALIZATIONS
from gpnn.nn import GPNN, MaskKey
from tests.oracle.engine_cases import SCHEDULES, make_schedule, multigraph

STEP = 1e-5
MASKS = {"input_dropout": 0.2, "state_dropout": 0.2, "dropout": 0.2, "drop_node": 0.2}


def features(*, sparse: bool) -> Tensor:
    random = torch.Generator().manual_seed(4)
    dense = torch.randn(10, 6, generator=random, dtype=torch.float64)
    dense *= torch.rand(10, 6, generator=random) < 0.5
    return csr_tensor(*_parts(dense)) if sparse else dense


def _parts(dense: Tensor) -> tuple[Any, ...]:
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(dense.numpy())
    return matrix.indptr, matrix.indices, matrix.data, matrix.shape


def check_gradient(model: GPNN, x: Tensor | None, plan: gpnn.Plan) -> None:
    """The derivative along a random direction is the gradient's product with it, to seven digits."""
    model = model.double().train()
    random = torch.Generator().manual_seed(5)
    slope = torch.randn(10, 3, generator=random, dtype=torch.float64)

    def loss() -> Tensor:
        return (model(x, plan, key=MaskKey(0, 1, 0)) * slope).sum()

    parameters = [each for each in model.parameters() if each.requires_grad]
    grads = torch.autograd.grad(loss(), parameters, allow_unused=True)
    assert any(grad is not None and bool(grad.any()) for grad in grads)
    way = [torch.randn(each.shape, generator=random, dtype=torch.float64) for each in parameters]
    expected = sum(float((grad * along).sum()) for grad, along in zip(grads, way) if grad is not None)
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, along in zip(parameters, way):
                parameter.add_(along, alpha=sign * STEP)
            values.append(float(loss()))
    assert (values[0] - values[1]) / (2 * STEP) == pytest.approx(expected, rel=1e-6, abs=1e-7)


def make(plan: gpnn.Plan, **options: Any) -> GPNN:
    return GPNN(6, 4, 3, num_edge_types=plan.num_edge_types, num_rounds=plan.num_rounds, num_nodes=10, **options)


def lower(name: str = "partitioned", normalization: str = "split", **options: Any) -> gpnn.Plan:
    graph = multigraph(**options)
    return gpnn.lower(graph, make_schedule(name, graph), normalization=normalization)


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize("aggregate", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("message", ["identity", "linear", "mlp"])
def test_messages_over_typed_edges(message: str, aggregate: str, runner: str) -> None:
    plan = lower()
    check_gradient(make(plan, message=message, aggregate=aggregate, runner=runner), features(sparse=False), plan)


@pytest.mark.parametrize("cell", ["gru", "lstm", "mlp", "linear", "gcnii"])
@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_cells_under_all_masks(cell: str, runner: str) -> None:
    plan = lower()
    check_gradient(make(plan, cell=cell, runner=runner, **MASKS), features(sparse=False), plan)


@pytest.mark.parametrize("input_", ["features", "embedding", "both"])
@pytest.mark.parametrize("concat", ["none", "features", "initial"])
def test_sparse_features_and_embeddings(input_: str, concat: str) -> None:
    plan = lower()
    masks = {"input_dropout": 0.3, "dropout": 0.2}
    check_gradient(make(plan, input=input_, concat=concat, encoder=(5,), **masks), features(sparse=True), plan)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    plan = lower(name)
    check_gradient(make(plan, message="linear"), features(sparse=False), plan)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
def test_normalizations(rule: str) -> None:
    plan = lower(normalization=rule, num_types=1)
    options = {"cell": "linear", "predict": "before", "readout": "learned", "concat": "none", "activation": "relu"}
    check_gradient(make(plan, **options), features(sparse=True), plan)


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test itself: a backward pass that is off by one part in ten thousand does not pass."""
    real = torch.autograd.grad

    def wrong(*arguments: Any, **options: Any) -> Any:
        return [None if grad is None else grad * 1.0001 for grad in real(*arguments, **options)]

    plan = lower()
    monkeypatch.setattr(torch.autograd, "grad", wrong)
    with pytest.raises(AssertionError):
        check_gradient(make(plan), features(sparse=False), plan)
