from gpnn.text import percent, printable, size, value_text


def test_percent():
    assert (percent(0.8154), percent(None)) == ("81.5 %", "–")


def test_size():
    assert (size(12), size(2048), size(5 << 30)) == ("12 B", "2.0 KiB", "5.0 GiB")


def test_control_characters_are_written_out():
    assert printable("Köln \x1b[2J\x9b1m\tα\n") == "Köln \\x1b[2J\\x9b1m\\tα\n"
    assert value_text("\x1b]0;title\x07") == "\\x1b]0;title\\x07"
