import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import gpnn
from gpnn.storage.tensors import read_tensors, write_tensors
from gpnn.train import Recipe, fit
from gpnn.train.objective import Examples
from gpnn.train.self_training import add_labels, predict_labels

PLAIN = {"optimizer": "sgd", "learning_rate": 1.0, "weight_decay": 0.0, "clip": 0.0, "patience": 0}


class Table(nn.Module):
    """A learnable row of logits per node, the last two of which predict as the first two do."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(2, 2))
        self.own = nn.Parameter(torch.zeros(2, 2))
        self.seen: list[torch.Tensor] = []

    def forward(self, x, plan, key=None):
        if self.training:
            self.seen.append(self.logits.detach().clone())
        return torch.cat([self.logits, self.logits, self.logits + self.own])  # train, validation, free


class Stop:
    def __init__(self, after: int) -> None:
        self.after = after

    def start(self, history):
        return None

    def epoch(self, record):
        return record["epoch"] == self.after


@pytest.fixture
def six() -> Data:
    split = torch.tensor([0, 0, 1, 1, 2, 2])
    return Data(
        y=torch.tensor([0, 1, 0, 1, -1, -1]),
        train_mask=split == 0,
        val_mask=split == 1,
        num_nodes=6,
        edge_index=torch.empty(2, 0, dtype=torch.int64),
        num_classes=2,
    )


@pytest.fixture(scope="module")
def planted() -> Data:
    return gpnn.load_dataset("planted", num_nodes=200)


def make(data: Data):
    schedule = gpnn.schedule.synchronous(data, rounds=2)
    model = gpnn.nn.GPNN(data.x.shape[1], 8, int(data.y.max()) + 1, dropout=0.2)
    return model, gpnn.lower(schedule)


def test_each_class_has_as_many_labels_and_training_and_validation_nodes_have_none():
    logits = torch.zeros(20, 2)
    logits[:, 0] = torch.linspace(1, 3, 20)
    logits[16:, 1] = 5.0
    nodes = {"train": torch.tensor([0, 19]), "val": torch.tensor([1, 18]), "test": torch.tensor([2])}
    labels = predict_labels(logits, Examples(None, torch.zeros(20, dtype=torch.int64), nodes))
    assert labels.tolist() == [-1] * 11 + [0] * 5 + [1] * 2 + [-1] * 2  # 0.6 of 16 nodes, five per class, if there are


def test_predicted_labels_weigh_three_times_what_the_given_ones_weigh():
    nodes = {"train": torch.tensor([2, 3]), "val": torch.tensor([4]), "test": torch.tensor([0])}
    examples = Examples(None, torch.tensor([1, -1, 0, 1, 1]), nodes, torch.tensor([9.0, 9.0, 1.0, 3.0, 9.0]))
    taught = add_labels(examples, torch.tensor([0, 1, -1, -1, -1]))
    assert taught.nodes["train"].tolist() == [0, 1, 2, 3]
    assert taught.target("train").tolist() == [0, 1, 0, 1]  # not the true label of node 0
    assert taught.train_weight().tolist() == [6.0, 6.0, 1.0, 3.0]
    assert examples.y.tolist() == [1, -1, 0, 1, 1]
    assert taught.nodes["val"] is nodes["val"]


def test_a_generation_starts_anew_and_learns_what_the_one_before_predicts(six):
    model = Table()
    result = fit(model, six, None, recipe=Recipe(epochs=3, self_training=2, **PLAIN))
    initial, second, third = model.seen
    assert torch.equal(third, initial)
    assert not torch.equal(second, initial)
    assert [(each["epoch"], each["generation"]) for each in result.history] == [(1, 1), (2, 1), (3, 2)]
    # the third step: both free nodes have labels, which weigh 3 each beside 1 of each training node: of the mean cross
    # entropy over a weight of 8 the gradient is (softmax − one-hot) · 3 / 8
    fit(model := Table(), six, None, recipe=Recipe(epochs=3, self_training=2, metric="loss", check_every=3, **PLAIN))
    assert torch.allclose(model.own, torch.tensor([[0.1875, -0.1875], [-0.1875, 0.1875]]))


def test_labels_of_validation_and_test_nodes_are_not_learnt(planted):
    results = []
    for shuffled in (False, True):
        data = planted.clone()
        if shuffled:
            test = data.test_mask.nonzero().flatten()
            data.y[test] = data.y[test.flip(0)]
        torch.manual_seed(0)
        model, plan = make(data)
        results.append(fit(model, data, plan, recipe=Recipe(epochs=12, self_training=4)))
    first, second = results
    assert torch.equal(first.logits, second.logits)
    assert first.metrics["test_accuracy"] != second.metrics["test_accuracy"]


def test_metrics_are_of_the_given_labels(planted):
    torch.manual_seed(0)
    model, plan = make(planted)
    result = fit(model, planted, plan, recipe=Recipe(epochs=12, self_training=4))
    right = result.logits.argmax(1) == planted.y
    for split in ("train", "val", "test"):
        assert result.metrics[f"{split}_accuracy"] == pytest.approx(
            float(right[planted[f"{split}_mask"]].float().mean())
        )


@pytest.mark.parametrize("stop", [3, 4, 6])
def test_a_resumed_generation_ends_at_the_same_bits(planted, tmp_path, stop):
    recipe = Recipe(epochs=10, self_training=4, passes=2, consistency=1.0, consistency_warmup=3, warmup=2)
    models = []
    for _ in range(3):
        torch.manual_seed(0)
        models.append(make(planted))
    (whole, plan), (begun, _), (resumed, _) = models
    expected = fit(whole, planted, plan, recipe=recipe)
    path = tmp_path / "training.safetensors"
    fit(begun, planted, plan, recipe=recipe, checkpoint=path, callbacks=[Stop(stop)])
    result = fit(resumed, planted, plan, recipe=recipe, checkpoint=path)
    assert torch.equal(result.logits, expected.logits)
    assert [each["loss"] for each in result.history] == [each["loss"] for each in expected.history]


def test_rates_and_ramps_are_those_of_the_generation(planted):
    torch.manual_seed(0)
    model, plan = make(planted)
    recipe = Recipe(epochs=6, self_training=3, learning_rate_schedule="linear", warmup=1, learning_rate=0.3)
    rates = [each["learning_rate"] for each in fit(model, planted, plan, recipe=recipe).history]
    assert rates == pytest.approx([0.3, 0.3, 0.15] * 2)


def test_patience_starts_with_each_generation(six):
    recipe = Recipe(epochs=8, self_training=4, **PLAIN | {"patience": 4})
    assert len(fit(Table(), six, None, recipe=recipe).history) == 8  # the first validation is the best of all


def test_without_validation_nodes_the_last_weights_predict(six):
    six.val_mask[:] = False
    model = Table()
    fit(model, six, None, recipe=Recipe(epochs=3, self_training=2, **PLAIN))
    assert model.own.abs().sum() > 0


def test_labels_of_another_graph_are_refused(planted, tmp_path):
    path, recipe = tmp_path / "training.safetensors", Recipe(epochs=6, self_training=2)
    model, plan = make(planted)
    fit(model, planted, plan, recipe=recipe, checkpoint=path, callbacks=[Stop(4)])
    tensors, header = read_tensors(path, "a checkpoint")
    for wrong in (tensors["labels"][:5], tensors["labels"] + 99, tensors["labels"].float()):
        write_tensors(path, tensors | {"labels": wrong}, header)
        with pytest.raises(ValueError, match="must be a class or -1 for each of the 200 nodes"):
            fit(make(planted)[0], planted, plan, recipe=recipe, checkpoint=path)
