import signal

import pytest

from gpnn.cli.interrupt import Interrupt

RECORD = {"epoch": 1, "loss": 0.5, "val_loss": 1.0, "val_accuracy": 0.75, "seconds": 0.1}


def test_the_second_interrupt_is_immediate():
    with Interrupt() as interrupt:
        assert interrupt.start([]) is False
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
            interrupt.start([])
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
            interrupt.start([])
            signal.raise_signal(signal.SIGHUP)
            assert interrupt.epoch(RECORD) is False
    finally:
        signal.signal(signal.SIGHUP, before)


def test_before_the_training_it_is_immediate_and_remembered():
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert interrupt.start([]) is True  # where compiled code swallowed what was raised
        assert interrupt.exit_code == 143
