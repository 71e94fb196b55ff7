from gpnn.text import percent, size


def test_percent():
    assert (percent(0.8154), percent(None)) == ("81.5 %", "–")


def test_size():
    assert (size(12), size(2048), size(5 << 30)) == ("12 B", "2.0 KiB", "5.0 GiB")
