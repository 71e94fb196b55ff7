from dataclasses import replace

from gpnn.report.cost import OUTSIDE, Cost
from gpnn.report.time_memory import time_memory


def test_the_section_shows_what_was_measured(record):
    cost = Cost({OUTSIDE: 0.5, "inside": 0.25}, {"inside": 2**21}, backward=1.0, peak=2**30, device="cpu", threads=1)
    section = time_memory(replace(record, cost=cost))
    rows = dict(section.parts[1].rows)
    assert rows["forward pass"] == "0.75 s"
    assert rows["kept for the backward pass"] == "2.0 MiB"
    assert rows["peak of the process"] == "1.0 GiB"
    assert section.parts[0].views["memory"][0]["x"] == [2.0]
    assert time_memory(replace(record, cost=None)) is None
