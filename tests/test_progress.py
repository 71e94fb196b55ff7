import io
import re
import sys
import time

import pytest
from rich.console import Console

from gpnn import progress
from gpnn.check import install_command
from gpnn.progress import Progress, TensorBoard, check_tensorboard, describe_validation

RECORD = {"epoch": 1, "loss": 0.5, "val_loss": 1.0, "val_accuracy": 0.75, "best_epoch": 1, "patience_left": 7}


def test_lines_come_every_tenth_with_the_best_and_the_patience(capsys):
    with Progress(every=1000) as shown:
        shown.stage("trial 2", 20)
        shown.start([])
        for epoch in range(1, 6):
            shown.epoch({**RECORD, "epoch": epoch, "val_accuracy": 0.5 if epoch > 1 else 0.75})
    assert capsys.readouterr().err.splitlines() == [
        "trial 2: epoch 2/20  loss 0.5000  validation 50.0 %  best 75.0 % (epoch 1)  patience 7",
        "trial 2: epoch 4/20  loss 0.5000  validation 50.0 %  best 75.0 % (epoch 1)  patience 7",
    ]


def test_trainings_of_a_race_are_no_lines(capsys):
    with Progress(every=1000) as shown:
        shown.rung(0, "gated", 20)
        shown.start([RECORD])
        shown.epoch({**RECORD, "epoch": 2})
        shown.stage("training", 20)
        shown.start([RECORD])
        shown.epoch({**RECORD, "epoch": 2})
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["training: continuing after epoch 1", "training: epoch 2/20"]


def test_a_line_comes_in_any_case(capsys):
    def wait_for(line: str) -> None:
        text = ""
        while not re.search(f"^{line}$", text, re.MULTILINE):
            time.sleep(0.01)
            text += capsys.readouterr().err

    with Progress("reading the graph", every=0.05) as shown:
        wait_for(r"reading the graph: \d+ s")
        shown.stage("training", 1000)
        shown.epoch(RECORD)
        wait_for(r"training: \d+ s, after epoch 1/1000  loss .*")
    assert not shown._ticker.is_alive()  # no line comes after the end


def test_a_silent_one_prints_nothing(capsys):
    with Progress(silent=True, every=0.01) as shown:
        shown.stage("training", 1)
        shown.start([RECORD])
        shown.epoch(RECORD)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch):
    page = io.StringIO()
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "console", lambda: Console(file=page, force_terminal=True, width=150))
    with Progress("reading the graph") as shown:
        shown.stage("training", 10)
        shown.start([{**RECORD, "epoch": epoch} for epoch in (1, 2, 3)])
        shown.epoch({"epoch": 4, "loss": 0.4})  # no check this time
        task = shown._bar.tasks[0]
        assert (task.completed, task.total) == (4, 10)
        assert task.fields["facts"] == "epoch 4/10  loss 0.4000  best 75.0 % (epoch 1)"
        shown.stage("writing the report")
        assert shown._bar.tasks[0].total is None
    assert "training" in page.getvalue()


def test_a_run_that_goes_on_is_said_to(capsys):
    with Progress() as shown:
        shown.start([RECORD])
    assert capsys.readouterr().err == "training: continuing after epoch 1\n"


def test_the_chosen_metric_is_shown():
    record = {"val_loss": 1.0, "val_accuracy": 0.9, "val_roc_auc": 0.625}
    assert describe_validation(record) == "validation ROC AUC 62.5 %"
    assert describe_validation({"loss": 1.0}) == ""


pytest.importorskip("tensorboard")


def record(epoch: int, **more: float) -> dict[str, float]:
    return {"epoch": epoch, "loss": 1 / epoch, **more}


def read(folder) -> dict[str, list[tuple[int, float]]]:
    """The curves as TensorBoard itself would show them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def write(folder, history, records) -> None:
    curves = TensorBoard(folder)
    curves.start(history)
    for each in records:
        curves.epoch(each)
    curves.close()


def test_every_figure_is_a_curve(tmp_path):
    write(tmp_path / "curves", [], [record(1, val_accuracy=0.5, learning_rate=0.25), record(2)])
    assert read(tmp_path / "curves") == {
        "training/loss": [(1, 1.0), (2, 0.5)],
        "validation/accuracy": [(1, 0.5)],
        "training/learning_rate": [(1, 0.25)],
    }


def test_a_resumed_training_goes_on_with_its_curves(tmp_path):
    write(tmp_path, [], [record(1), {"epoch": 2, "loss": 9.0}, {"epoch": 3, "loss": 9.0}])
    write(tmp_path, [record(1), record(2)], [record(3), record(4)])  # a kill left epochs 2 and 3 of another life
    assert read(tmp_path)["training/loss"] == [(epoch, pytest.approx(1 / epoch)) for epoch in (1, 2, 3, 4)]


def test_curves_asked_for_late_begin_at_the_beginning(tmp_path):
    write(tmp_path / "curves", [record(1), record(2)], [record(3)])
    assert [step for step, _ in read(tmp_path / "curves")["training/loss"]] == [1, 2, 3]


def test_what_is_written_is_there_before_the_end(tmp_path):
    curves = TensorBoard(tmp_path / "curves")
    curves.start([])
    curves.epoch(record(1))
    assert read(tmp_path / "curves") == {"training/loss": [(1, 1.0)]}
    curves.close()


def test_without_tensorboard_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ValueError, match=re.escape(f"needs tensorboard: {install_command('log')}.")):
        check_tensorboard()
