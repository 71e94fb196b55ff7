import json
import math

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from gpnn.run.checkpoint import DamageWarning, Progress, copy_weights, load_checkpoint, previous, save_checkpoint
from gpnn.storage.tensors import read_tensors, write_tensors
from gpnn.train.optimizer import OPTIMIZERS, make_optimizer


def trained(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(3, 2)
    nn.init.constant_(model.weight, float(seed))
    optimizer = make_optimizer(model)
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def test_everything_comes_back(tmp_path):
    path = tmp_path / "training.safetensors"
    model, optimizer = trained(1)
    progress = Progress(3, 2, 0.75, 0.1 + 0.2, 1, 4.5, [{"epoch": 1, "loss": 0.1}], copy_weights(model))
    save_checkpoint(path, model, optimizer, progress)
    other, second = trained(2)
    restored = load_checkpoint(path, other, second)
    assert torch.equal(other.weight, model.weight)
    assert second.state_dict()["state"][0]["exp_avg"].equal(optimizer.state_dict()["state"][0]["exp_avg"])
    assert torch.equal(restored.best_weights.pop("weight"), model.weight)
    progress.best_weights.pop("weight")
    assert torch.equal(restored.best_weights.pop("bias"), progress.best_weights.pop("bias"))
    assert restored == progress


def test_it_is_one_file_that_holds_no_code(tmp_path):
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a.safetensors", model, optimizer, Progress())
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["gpnn"])["epoch"] == 0


def test_another_models_checkpoint_is_refused(tmp_path):
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a.safetensors", model, optimizer, Progress())
    wide = nn.Linear(4, 2)
    with pytest.raises(ValueError, match=r"must fit the model. Got other parameters"):
        load_checkpoint(tmp_path / "a.safetensors", wide, make_optimizer(wide))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\xff" * 64])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"must be a checkpoint. Got a damaged file"):
        load_checkpoint(tmp_path / "a.safetensors", *trained(1))


def test_another_safetensors_file_is_refused(tmp_path):
    save_file({"x": torch.ones(1)}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"must be a checkpoint that gpnn wrote. Got another program"):
        load_checkpoint(tmp_path / "a.safetensors", *trained(1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer/0/step": torch.tensor(-3.0)}, "Got another 'step'"),
        ({"optimizer/1/step": torch.tensor(1.5)}, "Got another 'step'"),
        ({"optimizer/0/step": torch.tensor(math.inf)}, "Got another 'step'"),
        ({"optimizer/0/step": torch.ones(2)}, "Got another 'step'"),
        ({"optimizer/0/exp_avg": torch.ones(5)}, "Got another 'exp_avg'"),
        ({"optimizer/0/exp_avg_sq": torch.ones(2, 3).int()}, "Got another 'exp_avg_sq'"),
        ({"optimizer/0/further": torch.ones(2, 3)}, "Got a part of it"),
        ({"optimizer/2/step": torch.tensor(1.0)}, "Got '2/step'"),
    ],
)
def test_a_checkpoint_that_was_signed_anew_must_still_fit_the_optimiser(tmp_path, changes, message):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, *trained(1), Progress(epoch=1))
    tensors, header = read_tensors(path, "a checkpoint")
    write_tensors(path, tensors | changes, header)
    with pytest.raises(ValueError, match=rf"^The checkpoint .* must .* {message}\.$"):
        load_checkpoint(path, *trained(1))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_comes_back(tmp_path, name):
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    first, second = (make_optimizer(model, name) for model in models)
    models[0](torch.ones(1, 3)).square().sum().backward()
    first.step()
    save_checkpoint(tmp_path / "a.safetensors", models[0], first, Progress())
    load_checkpoint(tmp_path / "a.safetensors", models[1], second)
    for model, optimizer in zip(models, (first, second)):
        model.zero_grad()
        model(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()
    assert torch.equal(models[0].weight, models[1].weight)


def check(progress: Progress, model: nn.Module, value: float, loss: float) -> bool:
    progress.epoch += 1
    return progress.check(model, value, loss)


def test_best_by_value_then_by_loss():
    progress, model = Progress(), nn.Linear(1, 1)
    answers = [
        check(progress, model, 0.5, 1.0),
        check(progress, model, 0.5, 0.9),
        check(progress, model, 0.5, 0.9),
        check(progress, model, 0.4, 0.1),
        check(progress, model, 0.6, 5.0),
    ]
    assert answers == [True, True, False, False, True]
    assert (progress.best_epoch, progress.best_value, progress.checks_since_best) == (5, 0.6, 0)


def test_what_is_not_a_number_is_never_best():
    progress, model = Progress(), nn.Linear(1, 1)
    assert not check(progress, model, math.nan, 0.1)
    assert not check(progress, model, 1.0, math.nan)
    assert progress.checks_since_best == 2


def test_best_weights_are_a_copy():
    progress, model = Progress(), nn.Linear(1, 1)
    check(progress, model, 0.5, 1.0)
    kept = progress.best_weights["weight"].clone()
    with torch.no_grad():
        model.weight += 1
    assert torch.equal(progress.best_weights["weight"], kept)


def test_the_checkpoint_before_replaces_a_damaged_one(tmp_path):
    path = tmp_path / "training.safetensors"
    model, optimizer = trained(1)
    for epoch in (1, 2, 3):
        save_checkpoint(path, model, optimizer, Progress(epoch=epoch))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["previous.safetensors", "training.safetensors"]
    assert load_checkpoint(path, *trained(1)).epoch == 3
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.warns(DamageWarning, match=r"The training resumes from previous\.safetensors\."):
        assert load_checkpoint(path, *trained(1)).epoch == 2
    previous(path).write_bytes(b"")
    with pytest.raises(ValueError, match=r"training\.safetensors must be a checkpoint"):
        load_checkpoint(path, *trained(1))
