"""The checks of arguments that all rooms share."""

import numpy as np
import pytest
import torch

from gpnn.check import (
    check_choice,
    check_count,
    check_node,
    check_probabilities,
    check_range,
    check_sizes,
    parse_memory,
)


@pytest.mark.parametrize("value", [3, np.int32(3), torch.tensor(3)])
def test_a_count_is_any_integer(value):
    count = check_count("k", value)
    assert count == 3
    assert type(count) is int


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "2", None, float("inf"), torch.tensor(2.0), np.bool_(True)])
def test_a_count_is_nothing_else(value):
    with pytest.raises(ValueError, match=r"`k` must be an integer of at least 1\. Got"):
        check_count("k", value)


def test_a_count_has_a_lower_bound():
    assert check_count("cut", 0, at_least=0) == 0
    with pytest.raises(ValueError, match=r"`cut` must be an integer of at least 2\. Got 1\."):
        check_count("cut", 1, at_least=2)


@pytest.mark.parametrize("value", [-1, 4, 1.0, False])
def test_a_node_is_an_id_of_the_graph(value):
    assert check_node("root", 3, 4) == 3
    with pytest.raises(ValueError, match=r"`root` must be a node, from 0 to 3\. Got"):
        check_node("root", value, 4)


def test_a_choice_is_one_of_a_table_or_tuple():
    check_choice("virtual", None, (None, "graph"))
    check_choice("rule", "mean", {"mean": 1})
    with pytest.raises(ValueError, match=r"`virtual` must be one of None, graph\. Got 'all'\."):
        check_choice("virtual", "all", (None, "graph"))


def test_sizes_and_probabilities():
    check_sizes(in_channels=0, hidden_channels=1)
    with pytest.raises(ValueError, match=r"`hidden_channels` must be at least 1\. Got 0\."):
        check_sizes(hidden_channels=0)
    check_probabilities(dropout=0.0)
    with pytest.raises(ValueError, match=r"`dropout` must be at least 0 and below 1\. Got 1\.0\."):
        check_probabilities(dropout=1.0)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_numbers_out_of_range(value):
    with pytest.raises(ValueError, match=r"`mixing` must be from 0 to 1\. Got"):
        check_range("mixing", value, 0, 1)
    check_range("mixing", 1, 0, 1)
    with pytest.raises(ValueError, match=r"`degree` must be at least 2\. Got"):
        check_range("degree", value, 2)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("16GiB", 16 * 2**30),
        ("20GB", 20e9),
        ("512 MiB", 2**29),
        ("1.5tb", 1.5e12),
        ("64", 64e9),
        (0.5, 5e8),
        ("auto", None),
    ],
)
def test_memory_has_a_unit_or_is_gb(value, size):
    assert parse_memory("memory", value) == size


@pytest.mark.parametrize(
    "value", [0, -1.0, "0GiB", "-1GB", "16 gigs", "GiB", "", True, float("inf"), float("nan"), "1e999"]
)
def test_memory_is_nothing_else(value):
    with pytest.raises(
        ValueError, match=r"`memory` must be an amount such as 16GiB or 20GB, a number of GB, or auto\. Got"
    ):
        parse_memory("memory", value)
