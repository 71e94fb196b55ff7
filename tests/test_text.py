import pytest

from gpnn.text import percent, size


def test_a_fraction_that_is_missing_is_a_dash():
    assert percent(None) == "–"


@pytest.mark.parametrize(("num_bytes", "words"), [(7, "7 B"), (2048, "2.0 KiB"), (300 << 30, "300 GiB")])
def test_bytes_have_the_unit_that_suits_them(num_bytes, words):
    assert size(num_bytes) == words
