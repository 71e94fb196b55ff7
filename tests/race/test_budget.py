import pytest

from gpnn.race.budget import MOST, allot, default_budget, parse_budget


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("2", 2.0), (45, 45.0), ("auto", None)]
)
def test_a_time_in_words(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "0", "10d", True, "1e400h"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"`budget` must be a time such as 90s, 10m or 1h, or auto\. Got "):
        parse_budget(text)


@pytest.mark.parametrize("few", [True, False])
def test_the_default_follows_the_nodes_within_bounds(few):
    assert default_budget(10, 3, few_labels=few) < default_budget(10, 4, few_labels=few)
    assert default_budget(10**9, 1, few_labels=few) == MOST
    assert default_budget(10, 4, few_labels=few) < default_budget(2708, 4, few_labels=few) < 60


def test_many_labels_take_less_time():
    assert default_budget(60_000, 8, few_labels=False) < 130 < default_budget(60_000, 8, few_labels=True)
    assert default_budget(20_000, 9, few_labels=True) < 300


def test_what_a_quick_training_leaves_goes_to_the_slow_one():
    costs = {"slow": 1.0, "quick": 0.1, "slower": 2.0}
    given = allot(30.0, costs, {"slow": 100, "quick": 10, "slower": 100}, dict.fromkeys(costs, 1.0))
    assert given == {"slow": 14, "quick": 10, "slower": 7}
    assert list(given) == ["slow", "quick", "slower"]
    assert sum(costs[name] * given[name] for name in given) <= 30


def test_shares_follow_their_weights():
    costs, wanted = {"one": 1.0, "other": 1.0}, {"one": 100, "other": 100}
    assert allot(30.0, costs, wanted, {"one": 2.0, "other": 1.0}) == {"one": 20, "other": 10}
    assert allot(30.0, costs, {"one": 4, "other": 100}, {"one": 2.0, "other": 1.0}) == {"one": 4, "other": 26}


def test_nothing_is_given_beyond_what_is_wanted():
    assert allot(1e9, {"a": 0.5, "b": 0.1}, {"a": 7, "b": 0}, {"a": 1.0, "b": 1.0}) == {"a": 7, "b": 0}
    assert allot(0.0, {"a": 0.5}, {"a": 7}, {"a": 1.0}) == {"a": 0}


def test_an_epoch_of_no_time_to_speak_of():
    assert allot(10.0, {"quick": 5e-324}, {"quick": 20}, {"quick": 1.0}) == {"quick": 20}
