import io
import signal

import pytest
from rich.console import Console
from rich.progress import Progress

from gpnn.cli import progress
from gpnn.cli.progress import Bar, Interrupt, Lines, describe_validation, progress_callback

RECORD = {"epoch": 1, "loss": 0.5, "val_loss": 1.0, "val_accuracy": 0.75, "seconds": 0.1}


def test_the_bar_shows_loss_accuracy_and_seconds():
    with Progress(console=Console(file=io.StringIO())) as bar:
        callback = Bar(bar, epochs=10)
        callback.start([{}] * 3)
        callback.epoch(RECORD)
        assert bar.tasks[0].completed == 4
        assert bar.tasks[0].description == "loss 0.5000  validation 75.0 %  0.10 s per epoch"
        callback.epoch({"epoch": 2, "loss": 0.4, "seconds": 0.1})  # no check this time: the last one stays
        assert "validation 75.0 %" in bar.tasks[0].description


def test_lines_come_every_tenth(capsys):
    callback = Lines(epochs=20)
    for epoch in range(1, 6):
        callback.epoch({**RECORD, "epoch": epoch})
    assert capsys.readouterr().err.count("epoch ") == 2


def test_a_terminal_gets_the_bar(monkeypatch):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with progress_callback(5) as callback:
        assert isinstance(callback, Bar)


def test_the_chosen_metric_is_shown():
    record = {"val_loss": 1.0, "val_accuracy": 0.9, "val_roc_auc": 0.625}
    assert describe_validation(record) == "validation roc auc 62.5 %"
    assert describe_validation({"loss": 1.0}) == ""


def test_the_second_interrupt_is_immediate():
    with Interrupt() as interrupt:
        assert interrupt.epoch(RECORD) is False
        signal.raise_signal(signal.SIGINT)
        assert interrupt.epoch(RECORD) is True
        assert interrupt.exit_code == 130
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_other_signals_interrupt_too(name, code):
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores one of them
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(number)
            assert interrupt.epoch(RECORD) is True
            assert interrupt.exit_code == code
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_or_handled_is_left_alone():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGHUP)
            assert interrupt.epoch(RECORD) is False
    finally:
        signal.signal(signal.SIGHUP, before)
