import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import gpnn
from gpnn.data.features import transform_data
from gpnn.engine import lower_csr
from gpnn.nn import GPNN, MaskKey
from gpnn.train import Recipe, fit
from gpnn.train.optimizer import OPTIMIZERS
from gpnn.train.trainer import checks_on_level


class Table(nn.Module):
    """One learnable row of logits a node: what the trainer does to it can be worked out by hand."""

    def __init__(self, num_nodes: int = 4, num_classes: int = 2) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(num_nodes, num_classes))
        self.keys: list[MaskKey | None] = []

    def forward(self, x, plan, key=None):
        self.keys.append(key)
        return self.logits * 1.0


class Stop:
    """A callback that ends the training after an epoch and remembers what it saw."""

    def __init__(self, after: int) -> None:
        self.after, self.started, self.seen = after, [], []

    def start(self, history):
        self.started.append(len(history))

    def epoch(self, record):
        self.seen.append(record["epoch"])
        return record["epoch"] == self.after


@pytest.fixture
def four() -> Data:
    yes, no = True, False
    return Data(
        y=torch.tensor([0, 1, 0, 1]),
        train_mask=torch.tensor([yes, yes, no, no]),
        val_mask=torch.tensor([no, no, yes, yes]),
        num_nodes=4,
        edge_index=torch.empty(2, 0, dtype=torch.int64),
        num_classes=2,
    )


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(left, right) for left, right in zip(a, b, strict=True))


def test_one_sgd_step_by_hand(four):
    model = Table()
    recipe = Recipe(epochs=1, optimizer="sgd", learning_rate=1.0, weight_decay=0.0, clip=0.0)
    result = fit(model, four, None, recipe=recipe)
    # the gradient of the mean cross entropy at zero logits is (softmax − one-hot) / 2
    assert model.logits.tolist() == [[0.25, -0.25], [-0.25, 0.25], [0.0, 0.0], [0.0, 0.0]]
    assert result.history[0]["loss"] == pytest.approx(math.log(2))
    assert result.history[0]["gradient_norm"] == pytest.approx(0.5)


def test_clipping_scales_the_gradient(four):
    model = Table()
    fit(model, four, None, recipe=Recipe(epochs=1, optimizer="sgd", learning_rate=1.0, weight_decay=0.0, clip=0.05))
    assert model.logits[0].tolist() == pytest.approx([0.025, -0.025], rel=1e-4)


def test_draws_name_seed_epoch_and_pass(four):
    model = Table()
    fit(model, four, None, recipe=Recipe(epochs=2, passes=2), seed=7)
    training = [key for key in model.keys if key is not None]
    assert training == [MaskKey(7, 1, 0), MaskKey(7, 1, 1), MaskKey(7, 2, 0), MaskKey(7, 2, 1)]


def test_it_learns_and_keeps_the_best_weights(planted, plan, model):
    result = fit(model, planted, plan, recipe=Recipe(epochs=60, patience=0))
    best = max(record["val_accuracy"] for record in result.history)
    assert result.metrics["val_accuracy"] == best > 0.8
    assert result.metrics["test_accuracy"] > 0.8
    assert result.history[result.metrics["best_epoch"] - 1]["val_accuracy"] == best
    assert result.stopped == "epochs"


def test_same_seed_same_bits_whatever_the_global_generator(planted, plan, model):
    other = copy.deepcopy(model)
    torch.manual_seed(1)
    fit(model, planted, plan, recipe=Recipe(epochs=5), seed=3)
    torch.manual_seed(2)
    fit(other, planted, plan, recipe=Recipe(epochs=5), seed=3)
    assert equal(weights(model), weights(other))


def test_another_seed_draws_other_masks(planted, plan, model):
    other = copy.deepcopy(model)
    fit(model, planted, plan, recipe=Recipe(epochs=5), seed=3)
    fit(other, planted, plan, recipe=Recipe(epochs=5), seed=4)
    assert not equal(weights(model), weights(other))


def test_a_gain_below_the_tolerance_does_not_prolong_a_training(planted, plan):
    base = Recipe(epochs=60, metric="loss", patience=10, learning_rate=0.001)
    patient, level = (
        fit(GPNN(3, 8, 3), planted, plan, recipe=replace(base, tolerance=tolerance)) for tolerance in (0.0, 0.9)
    )
    assert patient.metrics["stopped"] == "epochs"  # the loss falls a little in every epoch
    assert (level.metrics["stopped"], level.metrics["epochs"]) == ("patience", 11)
    assert level.metrics["best_epoch"] == 11  # small gains are kept all the same


def test_validations_on_one_level_are_counted():
    history = [{"val_mae": value} for value in (4.0, 3.99, 3.0, 3.5, 2.999)]
    assert checks_on_level(history, "mae", 0.01) == 2
    assert checks_on_level(history, "mae", 0.0001) == 0
    assert checks_on_level([{"loss": 1.0}], "mae", 0.01) == 0


def test_patience_counts_checks(four):
    model = Table()  # validation nodes never learn: no check after the first is better
    result = fit(model, four, None, recipe=Recipe(epochs=100, check_every=3, patience=2, weight_decay=0.0))
    assert (result.stopped, result.metrics["epochs"], result.metrics["best_epoch"]) == ("patience", 9, 3)


def test_checks_come_every_few_epochs_and_at_the_last(planted, plan, model):
    result = fit(model, planted, plan, recipe=Recipe(epochs=7, check_every=3))
    assert [record["epoch"] for record in result.history if "val_accuracy" in record] == [3, 6, 7]


def test_any_metric_selects_the_best(planted, plan, model):
    result = fit(model, planted, plan, recipe=Recipe(epochs=20, metric="loss", patience=0))
    losses = [record["val_loss"] for record in result.history]
    assert result.metrics["best_epoch"] == losses.index(min(losses)) + 1
    result = fit(model, planted, plan, recipe=Recipe(epochs=2, metric="macro_f1"))
    assert "val_macro_f1" in result.history[0]


def test_without_validation_the_last_weights_are_kept(planted, plan, model):
    data = planted.clone()
    del data.val_mask
    result = fit(model, data, plan, recipe=Recipe(epochs=4))
    assert result.metrics["best_epoch"] == 4
    assert "val_accuracy" not in result.metrics


def test_multi_label_targets(planted, plan, model):
    data = planted.clone()
    data.y = nn.functional.one_hot(planted.y, 3).float()
    result = fit(model, data, plan, recipe=Recipe(epochs=30, passes=2, consistency=0.5, class_weight="balanced"))
    assert result.metrics["metric"] == "roc_auc"
    assert result.metrics["val_roc_auc"] > 0.8


def test_consistency_over_unlabelled_nodes_pulls_them_to_one_answer(four):
    model = Table()
    with torch.no_grad():
        model.logits[2] = torch.tensor([0.5, 0.0])
    base = Recipe(epochs=20, passes=2, weight_decay=0.0, consistency_warmup=0, patience=0, temperature=0.1)
    spread = []
    for strength in (0.0, 5.0):
        trained = copy.deepcopy(model)
        recipe = replace(base, consistency=strength, consistency_on="unlabelled")
        fit(trained, four, None, recipe=recipe)
        spread.append((trained.logits[2, 0] - trained.logits[2, 1]).item())
    assert spread[0] == 0.5 < spread[1]


def test_a_training_that_diverged_has_no_metrics(four):
    class Bursts(Table):
        def forward(self, x, plan, key=None):
            logits = super().forward(x, plan, key)
            return logits * math.inf if key is not None and key.epoch == 4 else logits

    model = Bursts()
    result = fit(model, four, None, recipe=Recipe(epochs=10, weight_decay=0.0))
    assert result.stopped == "non_finite"
    assert "The loss is not finite in epoch 4, where the loss is nan: a training that diverged has" in result.problem
    assert "try a smaller learning rate than 0.01, a smaller gradient norm (`clip`)" in result.problem
    assert torch.isfinite(model.logits).all()
    assert result.metrics == {}
    assert len(result.history) == 3


def test_a_non_finite_gradient_is_not_applied(four):
    class Steep(Table):
        def forward(self, x, plan, key=None):
            return super().forward(x, plan, key) + torch.sqrt(self.logits.abs())  # slope ∞ at 0

    model = Steep()
    result = fit(model, four, None, recipe=Recipe(epochs=3, clip=0.0))
    assert "The gradient is not finite in epoch 1, where the loss is 0.69" in result.problem
    assert torch.isfinite(model.logits).all()


@pytest.mark.parametrize("what", ["validation loss", "prediction"])
def test_a_last_step_too_far_is_found(four, what):
    """The loss of an epoch is taken before its step: here no training loss is ever infinite."""

    class Overflows(Table):
        def forward(self, x, plan, key=None):
            logits = super().forward(x, plan, key)
            return logits if self.training else logits * math.inf

    if what == "prediction":
        del four.val_mask
    result = fit(Overflows(), four, None, recipe=Recipe(epochs=1, metric="loss"))
    assert (result.stopped, result.metrics) == ("non_finite", {})
    assert f"The {what} is not finite in epoch 1, where the loss is 0.69" in result.problem


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_resumed_run_ends_at_the_same_bits(planted, plan, model, tmp_path, optimizer):
    recipe = Recipe(
        epochs=12, optimizer=optimizer, passes=2, consistency=1.0, learning_rate_schedule="cosine", patience=9
    )
    whole, parts, path = copy.deepcopy(model), copy.deepcopy(model), tmp_path / "training.safetensors"
    expected = fit(whole, planted, plan, recipe=recipe)
    first = fit(parts, planted, plan, recipe=recipe, checkpoint=path, callbacks=[Stop(5)])
    assert (first.stopped, first.metrics) == ("interrupted", {})
    fresh, callback = copy.deepcopy(model), Stop(0)
    second = fit(fresh, planted, plan, recipe=recipe, checkpoint=path, callbacks=[callback])
    assert callback.started == [5]
    assert callback.seen[0] == 6
    assert equal(weights(whole), weights(fresh))
    timed = ("seconds",)
    strip = lambda measured: {name: value for name, value in measured.items() if name not in timed}  # noqa: E731
    assert strip(second.metrics) == strip(expected.metrics)
    assert [strip(record) for record in second.history] == [strip(record) for record in expected.history]


def test_running_averages_of_a_normalised_model_resume_to_the_same_bits(planted, plan, tmp_path):
    made = [GPNN(3, 8, 3, predict="features", norm="batch", drop_node=0.2) for _ in range(3)]
    recipe, path = Recipe(epochs=8, passes=2, consistency=1.0), tmp_path / "training.safetensors"
    fit(made[0], planted, plan, recipe=recipe)
    fit(made[1], planted, plan, recipe=recipe, checkpoint=path, callbacks=[Stop(3)])
    fit(made[2], planted, plan, recipe=recipe, checkpoint=path)
    assert equal(weights(made[0]), weights(made[2]))


def test_embeddings_that_no_message_reads_stand_still_and_resume_to_the_same_bits(planted, tmp_path):
    data = planted.clone()
    few = planted.train_mask.nonzero().flatten()[:2]
    data.train_mask = torch.zeros(90, dtype=torch.bool).index_fill_(0, few, True)
    data.num_nodes = 90
    del data.x, data.val_mask
    plan = gpnn.lower(data, gpnn.schedule.synchronous(data, rounds=1))
    model = GPNN(0, 8, 3, input="embedding", concat="none", num_nodes=90, drop_node=0.4)
    recipe, path = Recipe(epochs=9, optimizer="lazy_adam", patience=0), tmp_path / "training.safetensors"
    reached = data.train_mask.clone()
    reached[data.edge_index[0, data.train_mask[data.edge_index[1]]]] = True
    whole, parts = copy.deepcopy(model), copy.deepcopy(model)
    fit(whole, data, plan, recipe=recipe)
    moved = (whole.embedding.weight != model.embedding.weight).any(1)
    assert torch.equal(moved, reached)
    assert 2 < int(reached.sum()) < 45
    fit(parts, data, plan, recipe=recipe, checkpoint=path, callbacks=[Stop(4)])
    fresh = copy.deepcopy(model)
    fit(fresh, data, plan, recipe=recipe, checkpoint=path)
    assert equal(weights(whole), weights(fresh))


def test_checkpoints_come_every_few_epochs(planted, plan, model, tmp_path):
    path = tmp_path / "training.safetensors"
    fit(model, planted, plan, recipe=Recipe(epochs=5, checkpoint_every=2, checkpoint_seconds=0), checkpoint=path)
    callback = Stop(0)
    fit(model, planted, plan, recipe=Recipe(epochs=5), checkpoint=path, callbacks=[callback])
    assert callback.started == [4]


def test_bf16_stays_close_to_float32(planted, plan, model):
    other = copy.deepcopy(model)
    exact = fit(model, planted, plan, recipe=Recipe(epochs=3))
    rounded = fit(other, planted, plan, recipe=Recipe(epochs=3, precision="bf16"))
    assert all(parameter.dtype == torch.float32 for parameter in other.parameters())
    assert rounded.history[-1]["loss"] == pytest.approx(exact.history[-1]["loss"], rel=0.05)


class Precision:
    """Remembers what torch may do with float32 products after each epoch."""

    def __init__(self):
        self.seen = set()

    def start(self, history):
        self.seen.add(torch.get_float32_matmul_precision())

    def epoch(self, record):
        self.seen.add(torch.get_float32_matmul_precision())


@pytest.mark.parametrize(("precision", "inside"), [("tf32", "high"), ("float32", "highest")])
def test_products_are_rounded_in_the_passes_alone(planted, plan, model, monkeypatch, precision, inside):
    """Forward, backward and validation; what stands around a training finds torch as it was."""
    passes, forward = [], type(model).forward

    def note(self, *args, **kwargs):
        passes.append(torch.get_float32_matmul_precision())
        logits = forward(self, *args, **kwargs)
        if logits.requires_grad:
            logits.register_hook(lambda grad: passes.append(torch.get_float32_matmul_precision()))
        return logits

    monkeypatch.setattr(type(model), "forward", note)
    callback = Precision()
    fit(model, planted, plan, recipe=Recipe(epochs=2, precision=precision), callbacks=[callback])
    assert passes.count(inside) == len(passes) >= 6
    assert callback.seen == {"highest"} == {torch.get_float32_matmul_precision()}


def test_embeddings_learn_without_features(planted, plan):
    model = GPNN(0, 8, 3, input="embedding", concat="none", num_nodes=90)
    data = planted.clone()
    del data.x
    assert fit(model, data, plan, recipe=Recipe(epochs=3)).history[-1]["loss"] < math.log(3)


def test_nothing_to_learn_from_is_refused(planted, plan, model):
    data = planted.clone()
    data.train_mask = torch.zeros(90, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"`train_mask` must hold at least one labelled node. Got none."):
        fit(model, data, plan)
    del data.y
    with pytest.raises(ValueError, match="`data` must have labels `y` to learn from"):
        fit(model, data, plan)


def test_class_weights_must_fit_the_classes(planted, plan, model):
    with pytest.raises(ValueError, match=r"one weight for each of the 3 classes. Got 2."):
        fit(model, planted, plan, recipe=Recipe(class_weight=(1.0, 2.0)))


def rewired(data: Data) -> Data:
    """The same nodes and as many edges, one of which ends elsewhere."""
    other = copy.copy(data)
    other.edge_index = data.edge_index.clone()
    other.edge_index[1, 0] = (other.edge_index[1, 0] + 1) % data.num_nodes
    return other


def csr_plan(data: Data) -> gpnn.Plan:
    """The plan of an undirected graph by way of CSR, in one part: rows stand as the nodes do."""
    rows = gpnn.Graph.from_data(data).in_edges()
    ptr, col = torch.from_numpy(rows.ptr), torch.from_numpy(rows.index)
    parts = torch.arange(data.num_nodes), torch.tensor([0, 40, data.num_nodes])
    return lower_csr(ptr, col, *parts, gpnn.schedule.partitioned_phases(), rounds=2)


@pytest.mark.parametrize("form", ["lowered", "built", "virtual", "csr"])
def test_the_plan_of_another_graph_is_refused(planted, model, form):
    planted = transform_data(planted, undirected=True)
    part = gpnn.partition_graph(planted, 3)
    virtual = "graph" if form == "virtual" else None
    plan = gpnn.lower(planted, gpnn.schedule.partitioned(planted, part, rounds=2, virtual=virtual))
    plan = {"built": lambda: plan.build("streamed"), "csr": lambda: csr_plan(planted)}.get(form, lambda: plan)()
    model = GPNN(3, 8, 3, runner="streamed", num_edge_types=plan.num_edge_types)
    fit(model, planted, plan, recipe=Recipe(epochs=1))
    with pytest.raises(
        ValueError, match=r"must be lowered from the edges of `data`. Got that of another graph of 90 n"
    ):
        fit(model, rewired(planted), plan, recipe=Recipe(epochs=1))
    turned = copy.copy(planted)
    turned.edge_index = planted.edge_index.flip(1)  # the same graph, edges the other way round in the list
    fit(model, turned, plan, recipe=Recipe(epochs=1))
    with pytest.raises(ValueError, match=r"The plan must have the 60 nodes of `data`. Got one of 90"):
        fit(model, planted.subgraph(torch.arange(60)), plan, recipe=Recipe(epochs=1))


def test_weights_and_types_are_part_of_the_graph(planted, model):
    weighted = copy.copy(planted)
    weighted.edge_weight = torch.rand(planted.num_edges)
    plan = gpnn.lower(weighted, gpnn.schedule.synchronous(weighted, rounds=2))
    fit(model, weighted, plan, recipe=Recipe(epochs=1))
    with pytest.raises(ValueError, match="must be lowered from the edges of `data`"):
        fit(model, planted, plan, recipe=Recipe(epochs=1))
