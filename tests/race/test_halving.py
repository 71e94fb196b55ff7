from dataclasses import replace
from functools import partial

import pytest
import torch

from gpnn.distributed.process_group import RankFailed
from gpnn.memory.engine import DoesNotFit
from gpnn.memory.estimate import Estimate
from gpnn.pipeline import Assembly, Pipeline
from gpnn.race import RaceRecord, default_budget, run_race
from gpnn.race.budget import measured_seconds
from gpnn.race.halving import LEAST_EPOCHS, _within_budget, decide
from gpnn.race.record import AGAIN, rung_epochs
from gpnn.train import Recipe, fit

RECIPES = {
    "linear": (Pipeline(rounds=2, hidden_channels=8, model_options={"cell": "linear"}), Recipe(epochs=24, patience=0)),
    "gru": (Pipeline(rounds=2, hidden_channels=8, model_options={"cell": "gru"}), Recipe(epochs=16, patience=0)),
    "still": (Pipeline(rounds=1, hidden_channels=4), Recipe(epochs=16, patience=3, learning_rate=1e-9)),
}


def start(data, name) -> Assembly:
    pipeline, recipe = RECIPES[name]
    return replace(pipeline, seed=3).assemble(data, recipe)


@pytest.fixture
def starts(planted):
    return {name: partial(start, planted, name) for name in RECIPES}


def untimed(record: RaceRecord) -> RaceRecord:
    return replace(record, rows=tuple({**row, "seconds": 0.0} for row in record.rows))


class Stop:
    """Ends every training from the so many-th epoch on."""

    def __init__(self, after: int) -> None:
        self.left = after

    def start(self, history) -> None:
        pass

    def epoch(self, record) -> bool:
        self.left -= 1
        return self.left <= 0


def test_rungs_drop_the_worse_and_the_winner_is_as_if_trained_alone(starts, tmp_path):
    noted = []
    record = run_race(starts, tmp_path, on_record=noted.append)
    assert [len(record.alive(rung)) for rung in range(3)] == [3, 2, 2]
    assert [len(each.rows) for each in noted] == list(range(8))
    assert not any("test" in key for row in record.rows for key in row)
    winner = record.finalists[0]
    alone, raced = starts[winner](), starts[winner]()
    expected = fit(alone.model, alone.data, alone.plan, recipe=alone.recipe, seed=3)
    checkpoint = tmp_path / winner / "training.safetensors"
    found = fit(raced.model, raced.data, raced.plan, recipe=raced.recipe, seed=3, checkpoint=checkpoint)
    assert {**found.metrics, "seconds": 0} == {**expected.metrics, "seconds": 0}
    assert all(torch.equal(one, other) for one, other in zip(alone.model.parameters(), raced.model.parameters()))
    best = max(each["val_accuracy"] for each in expected.history)
    assert record.find(2, winner)["value"] == best


def test_a_race_that_was_ended_goes_on_to_the_same_record(starts, tmp_path):
    whole = run_race(starts, tmp_path / "whole", on_record=lambda record: None)
    parts, record = tmp_path / "parts", None
    noted: list[RaceRecord] = []
    for after in (2, 3, 4, 7):
        record = run_race(starts, parts, record=record, on_record=noted.append, callbacks=[Stop(after)])
        assert record.finalists == []
    record = run_race(starts, parts, record=record, on_record=noted.append)
    assert untimed(record) == untimed(whole)


@pytest.mark.thorough
@pytest.mark.parametrize("rows", range(1, 8))
def test_a_kill_before_a_row_was_noted_costs_no_further_epoch(starts, tmp_path, rows):
    whole = run_race(starts, tmp_path / "whole", on_record=lambda record: None)
    noted: list[RaceRecord] = []

    def die(record: RaceRecord) -> None:
        if len(record.rows) == rows:
            raise KeyboardInterrupt
        noted.append(record)

    with pytest.raises(KeyboardInterrupt):
        run_race(starts, tmp_path / "killed", on_record=die)
    record = run_race(starts, tmp_path / "killed", record=noted[-1], on_record=lambda record: None)
    assert untimed(record) == untimed(whole)


def test_the_decision_follows_from_sizes_alone(starts):
    one, other = decide(starts, None), decide(starts, None)
    assert one == other
    assert not one.measured
    assert one.costs["gru"] > one.costs["still"]


def test_a_budget_is_measured(starts):
    record = decide(starts, 500.0)
    assert record.measured
    assert record.budget == 500.0
    assert all(cost > 0 for cost in record.costs.values())


def test_rungs_keep_to_the_budget():
    record = RaceRecord(18.0, False, "accuracy", {"a": 0.1, "b": 1.0}, {"a": 80, "b": 80})
    assert rung_epochs(record, 0) == {"a": 12, "b": 2}


def test_a_training_of_few_epochs_has_its_later_shares_at_once():
    record = RaceRecord(45.0, False, "accuracy", {"solver": 1.0, "network": 0.1}, {"solver": 12, "network": 400})
    assert rung_epochs(record, 0) == {"solver": 7, "network": 30}


def test_what_is_too_slow_to_tell_anything_does_not_take_part(planted):
    quick = replace(RECIPES["linear"][1], epochs=10_000)
    trials = {
        "quick": RECIPES["linear"][0].assemble(planted, quick),
        "slow": RECIPES["gru"][0].assemble(planted, replace(quick, passes=4000)),
    }
    record = decide({name: lambda trial=trial: trial for name, trial in trials.items()}, None)
    assert list(record.costs) == ["quick"]
    assert list(record.epochs) == ["quick"]
    assert list(record.left_out) == ["slow"]
    assert record.budget == default_budget(planted.num_nodes, 1)
    assert LEAST_EPOCHS > 1


def test_where_labels_are_few_the_others_make_room_for_the_first():
    """By five epochs of it the first rung would prefer a solver that has ended."""
    costs, epochs = {"first": 0.2, "quick": 0.05, "solver": 0.2}, {"first": 400, "quick": 400, "solver": 16}
    record = RaceRecord(20.0, True, "accuracy", costs, epochs)
    assert rung_epochs(record, 0)["first"] < LEAST_EPOCHS
    kept = _within_budget(record, keep_first=True, returned=0.0)
    assert list(kept.costs) == ["first", "solver"]
    assert rung_epochs(kept, 0)["first"] >= LEAST_EPOCHS
    assert list(_within_budget(record, keep_first=False, returned=0.0).costs) == ["quick", "solver"]


def refuse() -> Assembly:
    raise DoesNotFit("too large", Estimate(3e9, 0, 0, 0, 0, 0, 0), 2e9)


def test_who_does_not_fit_in_memory_does_not_take_part(starts, tmp_path):
    record = run_race({"huge": refuse, **starts}, tmp_path, on_record=lambda record: None)
    assert list(record.costs) == list(starts)
    assert record.too_large == {"huge": "3.2 GB (data and program 3.0, plan 0.0, features 0.0) where there are 2.0 GB"}
    assert RaceRecord.from_mapping(record.to_mapping(), "race.json") == record
    alone = run_race(starts, tmp_path / "alone", on_record=lambda record: None)
    assert untimed(replace(record, too_large={})) == untimed(alone)


def test_a_gpu_that_is_full_at_the_measured_epoch_leaves_a_recipe_out(starts, monkeypatch):
    def measure(model, data, plan, recipe, *, seed) -> float:
        if recipe.patience:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 0.01

    monkeypatch.setattr("gpnn.race.halving.measured_seconds", measure)
    record = decide(starts, 500.0)
    assert set(record.costs) == {"linear", "gru"}
    assert record.too_large == {"still": "more than the GPU has, as measured"}


class TwoProcesses:
    """A group in which the other process may have been refused."""

    size = 2

    def __init__(self, refused: bool) -> None:
        self.refused = refused

    def any(self, *conditions: bool) -> tuple[bool, ...]:
        return tuple(each or self.refused for each in conditions)


def test_processes_agree_on_who_does_not_fit(starts):
    def fail() -> Assembly:
        raise RankFailed("Another process failed.")

    record = decide({"huge": fail, **starts}, None, group=TwoProcesses(refused=True))
    assert record.too_large == {"huge": "more than another process has"}
    with pytest.raises(RankFailed):  # for another reason
        decide({"huge": fail, **starts}, None, group=TwoProcesses(refused=False))


def test_where_none_fits_the_race_is_refused(tmp_path):
    with pytest.raises(DoesNotFit, match="too large"):
        run_race({"huge": refuse, "larger": refuse}, tmp_path, on_record=lambda record: None)


def test_who_diverges_is_out(planted, starts, tmp_path):
    def broken() -> Assembly:
        trial = start(planted, "gru")
        next(trial.model.parameters()).data.fill_(float("nan"))
        return trial

    record = run_race({"broken": broken, **starts}, tmp_path, on_record=lambda record: None)
    assert record.rows[0]["value"] is None
    assert record.rows[0]["stopped"] == "non_finite"
    assert "broken" not in record.alive(1)


def test_what_a_race_will_take_is_told_before_it_starts(starts, tmp_path):
    noted = []
    record = run_race(starts, tmp_path, on_record=noted.append)
    assert 0 < noted[0].expected <= noted[0].budget
    done = sum(cost * record.last(name)["epochs"] for name, cost in record.costs.items())
    assert done <= noted[0].expected == record.expected == record.to_mapping()["expected"]
    short = RaceRecord(12.0, True, "accuracy", {"a": 0.1, "b": 1.0}, {"a": 80, "b": 80})
    assert short.expected <= 12.0 + 1.0


def test_what_its_sizes_forbid_is_not_measured(starts, monkeypatch):
    measured = []
    monkeypatch.setattr("gpnn.race.halving.measured_seconds", lambda model, *rest, seed: measured.append(model) or 0.01)
    monkeypatch.setattr(
        "gpnn.race.halving.nominal_seconds", lambda model, data, plan, recipe: 1.0 if recipe.patience else 1e-3
    )
    told = []
    record = decide(starts, 5.0, told.append)
    assert len(measured) == len(told) == 2
    assert "still" not in record.costs


def test_a_large_graph_has_the_time_that_its_ordinary_epochs_take(starts, monkeypatch):
    monkeypatch.setattr("gpnn.race.halving.LARGE", 1)
    monkeypatch.setattr("gpnn.race.halving.measured_seconds", lambda *parts, seed: 2.0)
    monkeypatch.setattr("gpnn.race.halving.nominal_seconds", lambda *parts: 1e-3)
    record = decide(starts, None)
    assert record.measured
    assert (set(record.costs), record.left_out) == (set(starts), {})
    assert (1 - AGAIN) * record.budget == pytest.approx(3 * LEAST_EPOCHS * 2.0 * len(starts))
    assert decide(starts, 30.0).left_out


def test_a_long_epoch_is_measured_once(planted, monkeypatch):
    monkeypatch.setattr("gpnn.race.budget.LONG", 0.0)
    trial, epochs = start(planted, "gru"), []
    monkeypatch.setattr("gpnn.race.budget.fit", lambda *given, **also: epochs.append(fit(*given, **also)) or epochs[-1])
    assert measured_seconds(trial.model, trial.data, trial.plan, trial.recipe) > 0
    assert len(epochs[0].history) == 1
