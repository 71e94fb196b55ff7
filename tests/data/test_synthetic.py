"""What generated datasets share."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.data import synthetic
from gpnn.data.synthetic import both_directions, draw_words, equal_blocks, sorted_distinct


def test_words_are_distinct_and_rise_within_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "_CHUNK", 7)  # rows of several chunks follow each other
    rng = np.random.default_rng(0)
    topic = rng.integers(3, size=50)
    ptr, columns = draw_words(topic, num_topics=3, num_words=30, per_node=8, noise=0.5, rng=rng)
    assert len(ptr) == 51
    assert ptr[-1] == len(columns)
    for start, end in pairwise(ptr):
        assert (np.diff(columns[start:end]) > 0).all()
        assert 1 <= end - start <= 8
        assert columns[start] >= 0
        assert columns[end - 1] < 30


def test_without_noise_words_stay_in_their_topic_s_block() -> None:
    topic = np.repeat([0, 1, 2], 20)
    ptr, columns = draw_words(topic, num_topics=3, num_words=30, per_node=5, noise=0.0, rng=np.random.default_rng(1))
    assert np.array_equal(columns // 10, np.repeat(topic, np.diff(ptr)))


def test_skew_makes_the_first_words_frequent() -> None:
    topic = np.zeros(2000, np.int64)
    rng = np.random.default_rng(2)
    _, columns = draw_words(topic, num_topics=1, num_words=1000, per_node=5, noise=0, rng=rng, skew=2.0)
    assert np.mean(columns < 250) == pytest.approx(0.5, abs=0.03)  # u² < 1/4 half of the time


def test_both_directions_drops_loops_and_repeats() -> None:
    first, second = np.array([2, 0, 1, 1, 0]), np.array([0, 2, 1, 0, 1])
    assert both_directions(first, second, 3).tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]


@given(st.lists(st.integers(0, 20)))
@settings(max_examples=30, deadline=None)
def test_sorted_distinct_is_a_sorted_set(keys: list[int]) -> None:
    assert sorted_distinct(np.array(keys, np.int64)).tolist() == sorted(set(keys))


def test_equal_blocks() -> None:
    assert equal_blocks(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match=r"`num_classes` must be at most the 2 nodes\. Got 3\."):
        equal_blocks(2, 3)
    with pytest.raises(ValueError, match=r"`num_classes` must be at least 1\. Got 0\."):
        equal_blocks(2, 0)
