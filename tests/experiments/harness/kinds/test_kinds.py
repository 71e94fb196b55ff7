"""Each kind of cell on small graphs whose metrics are known."""

import math

import pytest

from experiments.harness.kinds import KINDS
from experiments.harness.kinds.kind import SMALL_GRAPH
from experiments.harness.kinds.training import Clock
from experiments.harness.run import run_cell
from experiments.harness.spec import Cell

CHAIN = {"name": "chain", "num_nodes": 6, "label_rate": 0.5}
HALVES = {"method": "given", "k": 2, "labels": [0, 0, 0, 1, 1, 1]}


def run(settings: dict) -> dict:
    return run_cell(Cell("row", "column", 0, settings))


def test_training_counts_messages_and_the_cut():
    settings = {"data": {**CHAIN, "num_features": 4}, "partition": HALVES, "device": "cpu"}
    settings |= {"schedule": {"rounds": 2, "intra": 2}, "train": {"epochs": 2}, "model": {"hidden_channels": 4}}
    found = run(settings)
    assert (found["num_messages"], found["parts"], found["edge_cut"]) == (36, 2, 0.2)  # two of ten edges cross
    assert found["machine"]


def test_a_partition_is_timed_and_judged():
    found = run({"kind": "partition", "data": CHAIN, "partition": {"k": 2}})
    assert (found["parts"], found["edge_cut"]) == (2, 0.2)  # two parts of a chain meet at one pair of ten edges
    assert 0 <= found["partition_seconds"] < 10
    assert found["halo"] == 2


def test_the_clock_takes_the_first_time_of_the_target_and_of_the_best():
    clock = Clock(target=0.5)
    clock.start([])
    for value in (0.25, None, 0.5, 0.5, 0.75, 0.7):
        clock.epoch({} if value is None else {"val_accuracy": value})
    found = clock.metrics()
    assert 0 <= found["cpu_seconds_to_target"] <= found["cpu_seconds_to_best"] <= found["cpu_seconds"]
    never = Clock(target=0.9)
    never.epoch({"val_accuracy": 0.8})
    assert never.metrics()["cpu_seconds_to_target"] is None


@pytest.mark.parametrize(
    ("schedule", "messages", "to_solve"),
    [({"name": "synchronous", "rounds": 5}, 50, 50), ({"rounds": 2, "intra": 2}, 36, 34)],
)
def test_broadcast_gives_the_paper_s_counts(schedule, messages, to_solve):
    found = run({"kind": "broadcast", "data": CHAIN, "partition": HALVES, "schedule": schedule})
    assert (found["num_messages"], found["messages_to_solve"]) == (messages, to_solve)
    assert found["pairs_reached"] == 1.0


def test_broadcast_that_is_not_solved_has_no_count():
    found = run({"kind": "broadcast", "data": CHAIN, "schedule": {"name": "synchronous", "rounds": 2}})
    assert found["messages_to_solve"] is None
    assert found["pairs_reached"] == pytest.approx(18 / 30)  # within two hops on a chain of six: 10 + 8 pairs


def test_statistics_count_an_edge_once():
    found = run({"kind": "statistics", "data": {**CHAIN, "num_features": 4}})
    assert (found["nodes"], found["edges"], found["classes"], found["features"]) == (6, 5, 2, 4)
    assert found["label_rate"] == found["train_nodes"] / 6


def test_a_baseline_gives_recall_where_there_are_gold_pairs():
    found = run({"kind": "baseline", "method": "lp", "data": {"name": "diel_like", "scale": 0.001}})
    assert 0 < found["test_recall"] <= 0.617 + 0.05


def test_states_lie_in_the_plane_one_point_a_labelled_node():
    settings = KINDS["states"].shrink({"kind": "states", "data": {"name": "cora"}})
    found = run(settings)
    assert len(found["plane_x"]) == len(found["plane_y"]) == len(found["plane_class"]) == SMALL_GRAPH["num_nodes"]
    assert -1 <= found["silhouette"] <= 1


def test_one_batch_of_all_clusters_is_the_full_batch():
    """Merging every cluster gives the whole graph back, so that without dropout both descend alike."""
    settings = {"kind": "clusters", "data": SMALL_GRAPH, "gcn": {"epochs": 3, "dropout": 0.0}}
    whole = run(settings)
    merged = run({**settings, "gcn": {**settings["gcn"], "clusters": 3, "batch": 3}})
    assert (whole["val_accuracy"], whole["test_accuracy"]) == (merged["val_accuracy"], merged["test_accuracy"])


@pytest.mark.thorough
def test_clusters_learn_planted_classes_in_batches():
    data = {**SMALL_GRAPH, "num_nodes": 300, "num_features": 40}
    found = run({"kind": "clusters", "data": data, "gcn": {"epochs": 40, "clusters": 6, "batch": 2, "dropout": 0.0}})
    assert found["val_accuracy"] > 0.6  # four classes
    assert math.isfinite(found["cpu_seconds"])


def test_clusters_take_sparse_features():
    data = {"name": "diel_like", "scale": 0.001}
    found = run({"kind": "clusters", "data": data, "gcn": {"epochs": 2, "clusters": 4, "batch": 2}})
    assert 0 <= found["val_accuracy"] <= 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"kind": "baseline", "method": "magic", "data": {"name": "cora"}}, "A baseline must be one of .* Got 'magic'"),
        ({"kind": "baseline", "method": "lp", "data": {"name": "cora"}, "train": {}}, "A section must be .* 'train'"),
        ({"kind": "baseline", "method": "lp", "options": {"speed": 1}}, "An option of the baseline 'lp' .* speed"),
        ({"kind": "clusters", "data": {"name": "cora"}, "gcn": {"depth": 3}}, "`gcn` takes .* Got 'depth'"),
        ({"kind": "babi", "babi": {"task": 4, "speed": 3}}, "`babi` takes .* Got 'speed'"),
        ({"kind": "statistics", "model": {}}, "A section must be one of kind, data. Got 'model'"),
        ({"kind": "broadcast", "train": {"epoch": 3}}, "`train.epoch` is not a setting"),
    ],
)
def test_wrong_settings_are_named_with_row_and_column(settings, says):
    with pytest.raises(ValueError, match=f"row, column: .*{says}"):
        run(settings)


def test_babi_learns_a_task_from_ten_stories(data_root):
    babi = {"task": 4, "num_train": 50, "epochs": 6, "hidden_channels": 12, "num_test": 200, "root": str(data_root)}
    found = run({"kind": "babi", "babi": babi})
    assert found["val_accuracy"] > 0.9
    assert found["test_accuracy"] > 0.9
    assert found["epochs"] <= 6
