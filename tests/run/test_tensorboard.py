import re
import sys

import pytest

from gpnn.check import install_command
from gpnn.run.tensorboard import TensorBoard, check_tensorboard

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
