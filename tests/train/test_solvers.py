from dataclasses import replace

import pytest
import torch

import gpnn
from gpnn.recipes import find_recipe
from gpnn.train.fit import fit
from tests.oracle.number_graph import number_graph

NAMED = find_recipe("sampled")
RECIPE = replace(NAMED.train, epochs=4, batch=20, checkpoint_every=1, consistency_warmup=2)


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


def test_a_training_goes_on_from_a_checkpoint_to_the_same_bits(planted, tmp_path):
    whole, result = train(planted)

    class Stop:
        def start(self, history):
            pass

        def epoch(self, record):
            return record["epoch"] == 2

    assert train(planted, checkpoint=tmp_path / "c", callbacks=[Stop()])[1].stopped == "interrupted"
    resumed, again = train(planted, checkpoint=tmp_path / "c")
    assert [each["loss"] for each in again.history] == [each["loss"] for each in result.history]
    assert all(torch.equal(value, whole.state_dict()[name]) for name, value in resumed.state_dict().items())


def test_the_learning_rate_moves_as_the_recipe_says(planted):
    constant, falling = (
        train(planted, replace(RECIPE, learning_rate_schedule=each))[1] for each in ("constant", "cosine")
    )
    assert falling.history[-1]["learning_rate"] < constant.history[-1]["learning_rate"]
    assert falling.history[-1]["loss"] != constant.history[-1]["loss"]


def test_hidden_labels_reach_no_weight(planted):
    """Without validation, labels that are not training's change no weight."""
    data, other = planted.clone(), planted.clone()
    for each in (data, other):
        del each.val_mask
    other.y = torch.where(planted.train_mask, planted.y, (planted.y + 1) % 3)
    first, second = train(data)[0].state_dict(), train(other)[0].state_dict()
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_a_model_that_does_not_propagate_features_is_refused(planted, plan):
    model = gpnn.nn.GPNN(3, 8, 3)
    with pytest.raises(ValueError, match="`batch` needs a model with `predict` 'features'"):
        fit(model, planted, plan, recipe=RECIPE)
