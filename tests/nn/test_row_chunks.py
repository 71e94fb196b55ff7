"""Encoder and head by chunks of rows, computed again in the backward pass: the same numbers, in less memory."""

from typing import Any

import pytest
import torch
from torch import Tensor

import gpnn
from gpnn.data.features import csr_tensor
from gpnn.memory.estimate import estimate_memory
from gpnn.memory.probe import probe
from gpnn.nn import GPNN, UPDATES, MaskKey, row_chunks
from gpnn.nn.gpnn import CONCATENATIONS, INPUTS, PREDICTIONS
from gpnn.nn.row_chunks import map_rows
from gpnn.pipeline import resolve_options
from gpnn.train import Recipe
from tests.oracle.engine_cases import make_schedule, multigraph, states

MASKS = {"input_dropout": 0.3, "state_dropout": 0.2, "dropout": 0.3, "drop_node": 0.3}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten nodes are four chunks."""
    monkeypatch.setattr(row_chunks, "chunk_rows", lambda *widths: 3)


@pytest.fixture(scope="module")
def plan() -> gpnn.Plan:
    graph = multigraph(num_types=1)
    return gpnn.lower(graph, make_schedule("partitioned", graph))


def features(kind: str) -> Tensor:
    dense = states(width=5).where(states(width=5, seed=8) > 0, 0.0)
    if kind == "few":  # dense, and multiplied as sparse
        return dense.where(states(width=5, seed=9) > 1, 0.0)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), (dense != 0).sum(1).cumsum(0)])
    rows, columns = dense.nonzero(as_tuple=True)
    return dense if kind == "dense" else csr_tensor(ptr.numpy(), columns.numpy(), dense[rows, columns].numpy(), (10, 5))


def results(plan: gpnn.Plan, x: Tensor | None, runner: str, **options: Any) -> list[Tensor]:
    """Scores, scores and states in evaluation, and the gradients of parameters and, where it asks for one, of `x`."""
    model = GPNN(5, 4, 3, num_rounds=2, num_nodes=10, runner=runner, **options).double()
    out = model(x, plan, MaskKey(0, 1, 0))
    slope = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    wanted = [*model.parameters(), *([x] if x is not None and x.requires_grad else [])]
    grads = torch.autograd.grad((out * slope).sum(), wanted, allow_unused=True)
    with torch.no_grad():
        scores, final = model.eval()(x, plan), model.states(x, plan)
    return [out.detach(), scores, final, *(torch.zeros(1) if grad is None else grad for grad in grads)]


def assert_same(plan: gpnn.Plan, x: Tensor | None, **options: Any) -> None:
    fused, streamed = (results(plan, x, runner, **options) for runner in ("fused", "streamed"))
    for ours, theirs in zip(streamed, fused, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-12)  # gradients of hundreds round, too


@pytest.mark.parametrize("input_", INPUTS)
@pytest.mark.parametrize("predict", PREDICTIONS)
@pytest.mark.parametrize("concat", CONCATENATIONS)
def test_every_form_of_model(plan: gpnn.Plan, input_: str, predict: str, concat: str) -> None:
    if predict == "features":
        input_ = "features"
    for head in ((), (6,)):
        shape = {"encoder": (6,), "head": head, "activation": "relu"}
        assert_same(plan, features("dense"), input=input_, predict=predict, concat=concat, **shape, **MASKS)


@pytest.mark.parametrize("kind", ["dense", "few", "sparse"])
@pytest.mark.parametrize("cell", [name for name in UPDATES if name != "batch_residual"])  # which needs all rows
def test_every_cell_and_kind_of_features(plan: gpnn.Plan, cell: str, kind: str) -> None:
    x = features(kind)
    assert_same(plan, x, **resolve_options({"cell": cell}, has_features=True), **MASKS)
    assert_same(plan, x.clone(), cell=cell, **MASKS)


def test_features_that_ask_for_a_gradient(plan: gpnn.Plan) -> None:
    for predict in PREDICTIONS:
        assert_same(plan, features("dense").requires_grad_(), predict=predict, **MASKS)


def test_embeddings_without_features(plan: gpnn.Plan) -> None:
    assert_same(plan, None, input="embedding", concat="none", predict="before", **MASKS)


def test_batch_normalisation_sees_all_nodes_at_once(plan: gpnn.Plan) -> None:
    assert_same(plan, features("dense"), norm="batch", **MASKS)


def test_frozen_parameters_stay_without_gradient(plan: gpnn.Plan) -> None:
    model = GPNN(5, 4, 3, runner="streamed").double()
    assert model.encoder is not None
    model.encoder.requires_grad_(False)
    model(features("dense"), plan).sum().backward()
    assert all(each.grad is None for each in model.encoder.parameters())
    assert all(each.grad is not None for each in model.head.parameters())


@pytest.mark.thorough
def test_autocast_is_repeated_in_the_backward_pass(plan: gpnn.Plan) -> None:
    grads = []
    for runner in ("fused", "streamed"):
        model = GPNN(5, 4, 3, runner=runner, cell="linear", predict="before", concat="none")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(features("dense").float(), plan)
        out.float().sum().backward()
        grads.append([each.grad for each in model.parameters()])
    for ours, theirs in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.03, atol=0.03 * float(theirs.abs().max()))


def test_a_change_between_the_passes_is_noticed() -> None:
    given, weight = states().requires_grad_() * 1, torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    out = map_rows(lambda h, key: h @ weight, [given], None, [weight])
    given.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_the_default_model_keeps_little_beside_what_propagates(plan: gpnn.Plan) -> None:
    """Of the default linear cell streaming used to save nothing: hidden layers and masks of 128 channels were kept."""
    options = resolve_options({"cell": "linear"}, has_features=True)
    model = GPNN(5, 128, 3, num_rounds=2, input_dropout=0.5, dropout=0.2, drop_node=0.5, **options)
    x = features("dense").float()
    fused, streamed = probe(model, x, plan), probe(model, x, plan, recomputes=True)
    assert fused.by_model > 3 * 128 * 4
    assert streamed.by_model <= 4 * 3 * 4  # the scores after each round, for the readout
    assert streamed.chunk > fused.by_model
    recipe = Recipe(passes=2, consistency=1.0)
    peaks = [estimate_memory(model, x, plan, recipe, runner).kept for runner in ("fused", "streamed")]
    assert peaks[1] < 0.1 * peaks[0]
