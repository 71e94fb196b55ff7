"""Training cells: what they measure beyond the metrics of fit."""

import pytest

from experiments.harness.kinds.training import TRAINING, run_training

TINY = {"partition": {"k": 2}, "schedule": {"rounds": 1}, "model": {"hidden_channels": 4}, "train": {"epochs": 1}}


def test_gold_pairs_are_recalled_where_a_dataset_has_them():
    metrics = run_training({**TINY, "data": {"name": "diel_like", "scale": 0.001}}, 0)
    assert 0 <= metrics["test_recall"] <= 1


def test_other_datasets_have_no_recall():
    metrics = run_training({**TINY, "data": {"name": "digits"}}, 0)
    assert "test_recall" not in metrics
    assert metrics["num_messages"] > 0


LINES = {"name": "shortest_path", "num_graphs": 30, "longest": 5}


@pytest.mark.parametrize("network", ["gcn", "gps"])
def test_a_stack_of_convolutions_takes_the_models_place(network):
    settings = {**TINY, "model": {"hidden_channels": 8}, "schedule": {"name": "synchronous", "rounds": 3}}
    metrics = run_training({**settings, "data": LINES, "network": network}, 0)
    assert metrics["messages_per_edge"] == 3
    assert metrics["test_mae"] > 0


@pytest.mark.thorough
def test_a_trained_model_is_tested_on_longer_graphs():
    model = {"cell": "max_plus", "aggregate": "max", "sharing": "kind", "norm": "pass", "hidden_channels": 16}
    train = {"epochs": 60, "learning_rate": 0.05, "weight_decay": 0.0, "target_scale": "linear"}
    settings = {"data": LINES, "schedule": {"name": "waves", "rounds": 1}, "model": {**model, "concat": "none"}}
    metrics = run_training({**settings, "train": train, "transfer": {"scale": 8, "num_graphs": 6}}, 0)
    assert metrics["test_mae"] < 0.3
    assert metrics["transfer_mae"] < 8 * 0.3
    assert metrics["transfer_r2"] > 0.99


def test_cells_share_the_graph_that_they_transfer_to(monkeypatch):
    import gpnn.build.objects as objects

    scales, load = [], objects.load_dataset

    def counted(*names, **options):
        scales.append(options.get("scale", 1))
        return load(*names, **options)

    monkeypatch.setattr(objects, "load_dataset", counted)
    settings = {**TINY, "data": LINES, "schedule": {"name": "synchronous", "rounds": 2}, "transfer": {"scale": 3}}
    metrics = [run_training(settings, seed)["transfer_mae"] for seed in (0, 0, 1)]
    assert scales.count(3) == 1
    assert metrics[0] == metrics[1] != metrics[2]


def test_an_unknown_network_is_named():
    assert TRAINING.problems({"data": LINES, "network": "x"}) == ["`network` must be one of gcn, gps. Got 'x'."]


def test_of_several_starts_the_best_on_validation_counts():
    settings = {**TINY, "data": {**LINES, "seed": 0}, "schedule": {"name": "waves", "rounds": 1}}
    single = [run_training(settings, seed)["val_r2"] for seed in (0, 1000)]
    assert run_training({**settings, "restarts": 2}, 0)["val_r2"] == max(single)
    assert single[0] != single[1]
