import sys

import pytest

from gpnn.extra import install_command
from gpnn.partition import PARTITIONERS, compare_partitions, partition_graph
from tests.oracle.small_graphs import ring


def test_one_row_a_method_in_the_order_given():
    rows = compare_partitions(ring(40), 4, ["random", "flood_fill"], seed=3)
    assert [row.method for row in rows] == ["random", "flood_fill"]
    for row in rows:
        assert row.quality == partition_graph(ring(40), 4, row.method, seed=3).quality(ring(40))
        assert row.seconds > 0
        assert row.peak_memory is None or row.peak_memory >= 0
        assert row.left_out is None


def test_a_method_that_cannot_give_k_parts_says_why():
    (row,) = compare_partitions(ring(6), 2, ["components"])
    assert row.left_out == "`k` must be at most the 1 connected components. Got 2."
    assert (row.seconds, row.quality) == (None, None)


def test_a_method_whose_extra_is_missing_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    (row,) = compare_partitions(ring(6), 2, ["metis"])
    assert row.left_out == f'The method "metis" needs pymetis: {install_command("metis")}. Got none.'


def test_options_are_passed_on():
    (row,) = compare_partitions(ring(4), 2, {"given": {"labels": [0, 1, 0, 1]}})
    assert row.quality.edge_cut == 1


def test_without_methods_all_are_compared_that_work_by_themselves():
    compared = [row.method for row in compare_partitions(ring(8), 2)]
    assert compared == [name for name in PARTITIONERS if name not in ("given", "auto")]


def test_an_unknown_method_lists_the_choices():
    with pytest.raises(ValueError, match=r"`methods` must be among flood_fill, .*, given, auto. Got 'best'."):
        compare_partitions(ring(4), 2, ["best"])
