from dataclasses import replace

from gpnn.report.history import MAX_POINTS, history_column, learning_curves


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
