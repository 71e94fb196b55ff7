"""Training cells: what they measure beyond the metrics of fit."""

from experiments.harness.kinds.training import run_training

TINY = {"partition": {"k": 2}, "schedule": {"rounds": 1}, "model": {"hidden_channels": 4}, "train": {"epochs": 1}}


def test_gold_pairs_are_recalled_where_a_dataset_has_them():
    metrics = run_training({**TINY, "data": {"name": "diel_like", "scale": 0.001}}, 0)
    assert 0 <= metrics["test_recall"] <= 1


def test_other_datasets_have_no_recall():
    metrics = run_training({**TINY, "data": {"name": "digits"}}, 0)
    assert "test_recall" not in metrics
    assert metrics["num_messages"] > 0
