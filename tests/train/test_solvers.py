from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

import gpnn
from gpnn.recipes import find_recipe
from gpnn.train.fit import fit
from gpnn.train.self_training import UNKNOWN
from gpnn.train.solvers import MiniBatches
from gpnn.train.trainer import Trainer
from tests.oracle.number_graph import number_graph

NAMED = find_recipe("sampled")
RECIPE = replace(NAMED.train, self_training=0, epochs=4, batch=20, checkpoint_every=1, consistency_warmup=2)
GENERATIONS = pytest.mark.parametrize("recipe", [RECIPE, replace(RECIPE, self_training=1)], ids=["alone", "taught"])


def train(data, recipe=RECIPE, device="cpu", **options):
    made = replace(NAMED.pipeline, rounds=2, seed=1, device=device).assemble(data, recipe)
    return made.model, fit(made.model, made.data, made.plan, recipe=recipe, seed=1, **options)


def test_classes_are_learnt(planted):
    _, result = train(planted)
    assert result.metrics["test_accuracy"] > 0.8
    assert len(result.history) == 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_masks_are_drawn_where_the_model_is(planted):
    on_gpu, on_cpu = (train(planted, device=device)[1].history for device in ("cuda", "cpu"))
    assert [each["loss"] for each in on_gpu] == pytest.approx([each["loss"] for each in on_cpu], rel=1e-3)


def test_numbers_are_learnt():
    _, result = train(number_graph(120), replace(RECIPE, epochs=8))
    assert result.metrics["test_r2"] > 0.3


@GENERATIONS
def test_a_training_goes_on_from_a_checkpoint_to_the_same_bits(planted, tmp_path, recipe):
    whole, result = train(planted, recipe)

    class Stop:
        def start(self, history):
            pass

        def epoch(self, record):
            return record["epoch"] == 2

    assert train(planted, recipe, checkpoint=tmp_path / "c", callbacks=[Stop()])[1].stopped == "interrupted"
    resumed, again = train(planted, recipe, checkpoint=tmp_path / "c")
    assert [each["loss"] for each in again.history] == [each["loss"] for each in result.history]
    assert all(torch.equal(value, whole.state_dict()[name]) for name, value in resumed.state_dict().items())


def test_the_learning_rate_moves_as_the_recipe_says(planted):
    constant, falling = (
        train(planted, replace(RECIPE, learning_rate_schedule=each))[1] for each in ("constant", "cosine")
    )
    assert falling.history[-1]["learning_rate"] < constant.history[-1]["learning_rate"]
    assert falling.history[-1]["loss"] != constant.history[-1]["loss"]


@GENERATIONS
def test_hidden_labels_reach_no_weight(planted, recipe):
    """Without validation, labels that are not training's change no weight."""
    data, other = planted.clone(), planted.clone()
    for each in (data, other):
        del each.val_mask
    other.y = torch.where(planted.train_mask, planted.y, (planted.y + 1) % 3)
    first, second = (train(each, recipe)[0].state_dict() for each in (data, other))
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_predicted_labels_of_a_batch_weigh_three_times_what_the_given_ones_weigh(planted):
    made = replace(NAMED.pipeline, rounds=2).assemble(planted, RECIPE)
    trainer = Trainer.of(made.model, made.data, made.plan, RECIPE, 1)
    solver, labelled, others = trainer.solver, planted.train_mask.nonzero().flatten()[:3], torch.tensor([10, 11, 12])
    scores = torch.randn(6, 3)
    given = cross_entropy(scores[:3], planted.y[labelled])
    assert torch.allclose(solver._supervised([scores, scores], labelled, others), given)
    labels = torch.full_like(planted.y, UNKNOWN)
    labels[10], labels[12] = 2, 0  # node 11 has none
    trainer.learn(labels)
    predicted = cross_entropy(scores[[3, 5]], torch.tensor([2, 0]))
    expected = (given + 3 * predicted) / 4
    assert torch.allclose(trainer.solver._supervised([scores, scores], labelled, others), expected)
    assert torch.allclose(trainer.solver._supervised([scores, scores], labelled, torch.tensor([11, 13, 14])), given)


def test_lambda_rises_in_every_generation(planted, monkeypatch):
    seen = []
    step = MiniBatches._step
    monkeypatch.setattr(MiniBatches, "_step", lambda self, number, ramp: seen.append(ramp) or step(self, number, ramp))
    train(planted, replace(RECIPE, self_training=2, consistency_warmup=4))
    generation = [(number + 1) / 40 for number in range(20)]
    assert seen == generation * 2


def test_a_model_that_does_not_propagate_features_is_refused(planted, plan):
    model = gpnn.nn.GPNN(3, 8, 3)
    with pytest.raises(ValueError, match="`batch` needs a model with `predict` 'features'"):
        fit(model, planted, plan, recipe=RECIPE)
