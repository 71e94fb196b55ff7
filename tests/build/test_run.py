import json

import torch

from gpnn.build import build, create_run, load_config, open_run, train_run


def test_recall_is_measured_where_there_are_gold_pairs(tmp_path):
    config = load_config(
        overrides=["data.name=diel_like", "data.scale=0.001", "model.hidden_channels=4", "train.epochs=1"]
    )
    built = build(config)
    run = create_run(built, tmp_path / "run")
    result = train_run(run, built)
    assert result.problem is None
    assert 0 <= run.read_metrics()["test_recall"] <= 1


def test_a_run_opens_with_the_objects_it_was_made_of(tmp_path):
    config = load_config(overrides=["data.name=planted", "data.num_nodes=60", "data.label_rate=0.3", "seed=4"])
    built = build(config)
    run, again = open_run(create_run(built, tmp_path / "run").path)
    assert again.config == built.config
    assert torch.equal(again.partition.labels, built.partition.labels)
    assert "gpnn" in json.loads(run.environment.read_text())
