from dataclasses import replace

from gpnn.race import RaceRecord
from gpnn.report.verdict import MAX_POINTS, history_column, learning_curves, race, ranking, verdict
from gpnn.train.blend import Blend

FOUND = {
    "majority": {"val_accuracy": 0.25, "test_accuracy": 0.5, "train_accuracy": 0.5, "seconds": 0.1},
    "other": {"test_accuracy": 0.75},
}
METRICS = {
    "task": "classification", "metric": "accuracy", "val_accuracy": 0.9, "test_accuracy": 0.8, "train_accuracy": 1.0,
    "test_macro_f1": 0.7, "test_roc_auc": 0.95, "seconds": 2.0, "epochs": 30,
}  # fmt: skip


def test_the_run_stands_beside_plain_methods_and_its_own_training_nodes(record):
    section = verdict(replace(record, metrics=METRICS, baselines=FOUND))
    assert section.lead == (
        "Test: accuracy 80.0 %, macro F1 70.0 %, ROC AUC 95.0 %. That is 5.0 points better than the best plain method, "
        "other (75.0 %). On the training nodes its accuracy is 100.0 %, 20.0 points more."
    )
    table = section.parts[0]
    assert table.columns == (
        "", "test accuracy", "test macro F1", "test ROC AUC", "validation accuracy", "training accuracy", "seconds"
    )  # fmt: skip
    assert table.rows == [
        ("this run", "80.0 %", "70.0 %", "95.0 %", "90.0 %", "100.0 %", "2.0"),
        ("the most frequent class", "50.0 %", "–", "–", "25.0 %", "50.0 %", "0.1"),
        ("other", "75.0 %", "–", "–", "–", "–", "–"),
    ]


def test_a_run_that_is_worse_or_stopped_is_said_to_be(record):
    metrics = {**METRICS, "test_accuracy": 0.6, "stopped": "interrupted"}
    lead = verdict(replace(record, metrics=metrics, baselines=FOUND)).lead
    assert "That is not better than the best plain method, other (75.0 %)." in lead
    assert lead.endswith("The training was stopped after epoch 30 and can be resumed.")


def test_numbers_have_no_points(record):
    metrics = {"task": "regression", "metric": "mae", "test_mae": 2.0, "train_mae": 1.0, "test_r2": 0.5}
    lead = verdict(replace(record, metrics=metrics, baselines={"mean": {"test_mae": 3.0, "test_r2": 0.0}})).lead
    assert "points" not in lead
    assert "better than the best plain method, the mean number" in lead


def test_without_held_out_nodes_nothing_is_claimed(record):
    assert "nothing can be said" in verdict(replace(record, metrics={"train_accuracy": 1.0})).lead


def row(rung, name, value, stopped="rung"):
    numbers = {"rung": rung, "epochs": 5 * (rung + 1), "seconds": 1.5, "value": value, "val_loss": 1.0, "best_epoch": 4}
    return {"name": name, "stopped": stopped, **numbers}


COSTS = {"spread": 0.1, "gated": 0.2, "other": 0.3}
ROWS = (
    row(0, "spread", 0.5),
    row(0, "gated", 0.7),
    row(0, "other", None, "non_finite"),
    row(1, "gated", 0.7),
    row(1, "spread", 0.75),
    row(2, "spread", 0.8, "patience"),
    row(2, "gated", 0.72),
)
RACED = RaceRecord(60.0, False, "accuracy", COSTS, dict.fromkeys(COSTS, 40), ROWS)


def test_the_best_comes_first_and_every_recipe_has_a_row(record):
    section = race(replace(record, race=RACED))
    assert ranking(RACED) == ["spread", "gated", "other"]
    assert section.lead.startswith("3 recipes were tried on the validation nodes, within 60 seconds by the sizes")
    assert section.lead.endswith("No other has a better validation accuracy than spread. spread predicts alone.")
    table = section.parts[0]
    assert [list(each) for each in table.rows] == [
        ["spread", "50.0 %", "75.0 %", "80.0 %", "–", "15", "4", "1.5", "no longer improved"],
        ["gated", "70.0 %", "70.0 %", "72.0 %", "–", "15", "4", "1.5", "the budget"],
        ["other", "not finite", "–", "–", "–", "5", "4", "1.5", "diverged"],
    ]
    assert len(table.columns) == 9


def test_a_blend_and_what_was_trained_again_are_shown(record):
    blended = replace(RACED, rows=(*ROWS, row(3, "gated.2", 0.74)), blend=Blend({"gated": 0.6, "spread": 0.4}, 0.05))
    section = race(replace(record, race=blended))
    assert (
        "a blend of gated (0.30), gated.2 (0.30), spread (0.40), whose validation loss differs from spread's by -0.0500"
        in section.lead
    )
    assert section.lead.endswith("History and schedule are gated's.")
    again = ["gated.2", "–", "–", "–", "74.0 %", "20", "4", "1.5", "as its first"]
    assert list(section.parts[0].rows[2]) == again


def test_who_did_not_take_part_is_named(record):
    raced = replace(RACED, left_out={"deep": 9.0}, too_large={"gated": "9.0 GB where there are 2.0 GB"})
    lead = race(replace(record, race=raced)).lead
    assert "Epochs that take too long for the budget: deep." in lead
    assert "Not in this memory: gated, 9.0 GB where there are 2.0 GB." in lead


def test_no_section_without_a_race(record):
    assert race(record) is None
    assert race(replace(record, race=replace(RACED, rows=ROWS[:4]))) is None


def test_only_epochs_that_were_checked_are_drawn(record):
    loss, metric = learning_curves(record).parts
    assert loss.views["loss"][0]["x"] == [1, 2, 3, 4, 5, 6]
    assert loss.views["loss"][1]["x"] == metric.views["metric"][0]["x"] == [2, 4, 6]


def test_long_histories_are_thinned_but_keep_their_ends():
    history = [{"epoch": epoch, "loss": 1 / epoch} for epoch in range(1, 5001)]
    epochs, values = history_column(history, "loss")
    assert len(epochs) == len(values) == MAX_POINTS
    assert (epochs[0], epochs[-1]) == (1, 5000)


def test_a_loss_that_was_not_finite_is_left_out():
    assert history_column([{"epoch": 1, "loss": None}, {"epoch": 2, "loss": 0.5}], "loss") == ([2], [0.5])


def test_without_validation_the_loss_is_drawn(record):
    history = [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": 0.5}]
    section = learning_curves(replace(record, history=history))
    assert [part.name for part in section.parts] == ["loss"]
    assert learning_curves(replace(record, history=[])) is None
