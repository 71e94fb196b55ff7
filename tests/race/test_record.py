from dataclasses import replace

import pytest

from gpnn.race import RaceRecord
from gpnn.race.record import TRAININGS, rank, rung_epochs
from gpnn.train.blend import Blend

BEGUN = RaceRecord(60.0, False, "accuracy", {"a": 0.1, "b": 0.2, "c": 0.3}, {"a": 40, "b": 40, "c": 8})


def row(rung, name, value, epochs=5, stopped="rung"):
    numbers = {"rung": rung, "epochs": epochs, "seconds": 1.0, "value": value, "val_loss": 1.0}
    return {"name": name, "stopped": stopped, **numbers}


def rows(*given):
    return replace(BEGUN, rows=tuple(given))


def test_the_better_ones_go_on_and_the_last_rung_is_ranked():
    record = rows(row(0, "a", 0.5), row(0, "b", 0.7), row(0, "c", 0.6))
    assert BEGUN.alive(0) == ["a", "b", "c"]
    assert record.alive(1) == ["b", "c"]
    assert record.finalists == []
    last = (row(2, "c", 0.8, 8, "epochs"), row(2, "b", 0.7))
    done = replace(record, rows=(*record.rows, row(1, "b", 0.7), row(1, "c", 0.8), *last))
    assert done.alive(2) == ["c", "b"]  # two stay to the end
    assert done.finalists == ["c", "b"]
    assert done.limit("c") is None
    assert done.limit("b") == 5


def test_a_rising_curve_is_not_left_for_a_level_one_and_the_best_stays():
    level = [row(0, "a", 0.7) | {"earlier": 0.7}, row(0, "b", 0.6) | {"earlier": 0.6}]
    rising = row(0, "c", 0.5) | {"earlier": 0.3}
    assert rows(*level, rising).alive(1) == ["a", "c"]
    assert rows(*level, rising | {"stopped": "patience"}).alive(1) == ["a", "b"]
    steep = [row(0, name, 0.5) | {"earlier": 0.1} for name in "bc"]
    assert rows(level[0], *steep).alive(1) == ["a", "b"]
    assert rows(level[0], row(0, "b", None), row(0, "c", 0.1) | {"earlier": None}).alive(1) == ["a", "c"]


def test_who_cannot_catch_up_in_the_last_rung_waits_for_the_blend():
    first = [row(0, name, 0.5) for name in "abc"]
    best, level = row(1, "a", 0.9) | {"earlier": 0.9}, row(1, "b", 0.8) | {"earlier": 0.8}
    rising = row(1, "b", 0.8) | {"earlier": 0.4}  # a third of the error each time: 0.93
    assert rung_epochs(rows(*first, best, level), 2) == {"a": 40, "b": 5}
    assert rung_epochs(rows(*first, best, rising), 2) == {"a": 40, "b": 40}
    ended = best | {"epochs": 40, "stopped": "epochs"}
    assert rung_epochs(rows(*first, ended | {"epochs": 5}, level), 2)["b"] == 40  # as a solver ends
    assert rung_epochs(rows(*first, ended, level), 2) == {"a": 40, "b": 40}  # nobody else wants the time
    losses = replace(rows(*first, row(1, "a", -1.0), row(1, "b", -2.0) | {"earlier": -6.0}), metric="mae")
    assert losses.prospect(1, "b") == pytest.approx(-2 / 3)
    assert losses.hopeless(2) == []


def test_a_level_curve_whose_loss_still_rises_goes_on_in_the_last_rung():
    first = [row(0, name, 0.5) for name in "abc"]
    best, level = row(1, "a", 0.9) | {"earlier": 0.9}, row(1, "b", 0.8, epochs=20) | {"earlier": 0.8}
    record = replace(rows(*first, best, level), ramps={"a": 0, "b": 10, "c": 0})
    assert rung_epochs(record, 2) == {"a": 40, "b": 40}
    assert rung_epochs(replace(record, rows=(*record.rows, row(2, "b", 0.8, 40))), 2) == {"a": 40, "b": 40}
    assert rung_epochs(replace(record, ramps={"b": 9}), 2) == {"a": 40, "b": 20}
    assert RaceRecord.from_mapping(record.to_mapping(), "race.json") == record


def test_the_last_rung_has_what_was_kept_for_it():
    """By sixty seconds a rung has forty thirds; what still rises then takes all that is left."""
    record = RaceRecord(60.0, False, "accuracy", {"a": 1.0, "b": 1.0}, {"a": 400, "b": 400})
    for rung in range(2):
        limits = rung_epochs(record, rung)
        done = tuple(row(rung, name, value, limits[name]) for name, value in (("a", 0.5), ("b", 0.5)))
        record = replace(record, rows=(*record.rows, *done))
    assert limits == {"a": 13, "b": 13}
    assert rung_epochs(record, 2) == {"a": 30, "b": 30}


def test_what_a_race_takes_at_most_counts_all_that_may_go_on():
    costs, epochs = {"a": 0.1, "b": 0.2, "c": 0.4}, {"a": 40, "b": 40, "c": 40}
    rungs = 12 * 0.1 + 40 * (0.2 + 0.4)
    assert RaceRecord(1e9, False, "accuracy", costs, epochs).expected == pytest.approx(TRAININGS * rungs)
    assert RaceRecord(40.0, False, "accuracy", costs, epochs).expected == 40.0


NAMES = ("spread", "columns", "gated")


def blended(budget, **weights):
    """A race of three recipes, an epoch a second, of ten epochs each, and its blend."""
    done = [row(rung, name, 0.5, 10, "epochs") for rung in range(3) for name in NAMES[: 2 if rung else 3]]
    record = RaceRecord(budget, False, "accuracy", dict.fromkeys(NAMES, 1.0), dict.fromkeys(NAMES, 10), tuple(done))
    return replace(record, blend=Blend(weights, 0.1))


def train_again(record):
    while (found := record.again) is not None:
        name, epochs = found
        record = replace(record, rows=(*record.rows, row(3, name, 0.6, epochs)))
    return record


def test_the_heaviest_of_a_blend_is_kept():
    assert blended(100.0).winner == "spread"
    assert blended(100.0, columns=0.6, spread=0.4).winner == "columns"


def test_a_blend_may_take_all_of_the_second_rung_and_what_came_to_its_end_in_the_first():
    first = (row(0, "a", 0.5), row(0, "b", 0.7), row(0, "c", 0.6))
    rest = (row(1, "b", 0.7), row(1, "c", 0.8), row(2, "c", 0.8, 8, "epochs"), row(2, "b", 0.7))
    assert rows(*first, *rest).candidates == ["c", "b"]
    assert rows(first[0] | {"stopped": "epochs"}, *first[1:], *rest).candidates == ["c", "b", "a"]
    assert rows(first[0] | {"stopped": "non_finite", "value": None}, *first[1:], *rest).candidates == ["c", "b"]


@pytest.mark.parametrize(
    ("budget", "weights", "names"),
    [
        (75.0, {"gated": 0.6, "spread": 0.4}, ["gated.2", "spread.2", "gated.3", "spread.3"]),
        (50.0, {"gated": 0.6, "spread": 0.4}, ["gated.2", "spread.2"]),
        (90.0, {"columns": 1.0}, []),  # which is the same each time
        (90.0, {}, []),
    ],
)
def test_members_are_trained_again_the_heaviest_first_as_time_allows(budget, weights, names):
    assert [each["name"] for each in train_again(blended(budget, **weights)).rows[7:]] == names


def test_trainings_share_the_weight_of_their_recipe():
    record = train_again(blended(40.0, gated=0.6, spread=0.4))
    assert record.mixture == Blend({"gated": 0.3, "gated.2": 0.3, "spread": 0.4}, 0.1)
    diverged = replace(record, rows=(*record.rows[:-1], row(3, "gated.2", None)))
    assert diverged.mixture.weights == {"gated": 0.6, "spread": 0.4}
    assert blended(40.0, columns=1.0).mixture.weights == {}
    assert RaceRecord.from_mapping(record.to_mapping(), "race.json") == record
    for wrong in (row(2, "gated.2", 0.5), row(3, "gated", 0.5), row(3, "gated.9", 0.5), row(3, "gated.x", 0.5)):
        with pytest.raises(ValueError, match="'rows'"):
            RaceRecord.from_mapping(replace(record, rows=(wrong,)).to_mapping(), "race.json")


def test_nobody_goes_on_before_the_rung_is_done():
    assert rows(row(0, "a", 0.5), row(0, "b", 0.7)).alive(1) == []


def test_epochs_are_those_before_the_rung():
    record = rows(row(0, "a", 0.5, 5), row(1, "a", 0.5, 20))
    assert [record.epochs_before(rung, "a") for rung in range(3)] == [0, 5, 20]
    assert record.epochs_before(2, "b") == 0


def test_ties_go_to_the_first_and_what_diverged_is_last():
    given = [
        {"name": "diverged", "value": None, "val_loss": None},
        {"name": "first", "value": 0.5, "val_loss": 0.9},
        {"name": "better", "value": 0.6, "val_loss": 1.9},
        {"name": "surer", "value": 0.5, "val_loss": 0.4},
    ]
    assert [each["name"] for each in rank(given)] == ["better", "first", "surer", "diverged"]


def test_ties_keep_the_order_of_the_table_in_every_rung():
    given = [row(0, "a", 0.5), row(0, "b", 0.7), row(0, "c", 0.8), row(1, "c", 0.9), row(1, "b", 0.9)]
    assert rows(*given).alive(1) == ["c", "b"]
    assert rows(*given).alive(2) == ["b", "c"]


def test_a_record_goes_through_json():
    record = rows(row(0, "a", 0.5))
    assert RaceRecord.from_mapping(record.to_mapping(), "race.json") == record


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"budget": "long"}, "budget"),
        ({"metric": None}, "metric"),
        ({"costs": {}}, "costs"),
        ({"costs": {"a": 0.0}, "epochs": {"a": 1}}, "costs"),
        ({"epochs": {"a": 40}}, "epochs"),
        ({"epochs": {"a": 40, "b": 40, "c": 0}}, "epochs"),
        ({"rows": [{"name": "a"}]}, "rows"),
        ({"rows": [row(9, "a", 0.5)]}, "rows"),
        ({"rows": [row(0, "z", 0.5)]}, "rows"),
        ({"rows": [row(0, "a", "high")]}, "rows"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_no_record_is_refused(change, named):
    with pytest.raises(ValueError, match=rf"race\.json must hold a race\. Got another '{named}'\."):
        RaceRecord.from_mapping({**BEGUN.to_mapping(), **change}, "race.json")
