from dataclasses import replace

from gpnn.race import RaceRecord
from gpnn.report.race import race, ranking


def row(rung, name, value, stopped="rung"):
    numbers = {"rung": rung, "epochs": 5 * (rung + 1), "seconds": 1.5, "value": value, "val_loss": 1.0, "best_epoch": 4}
    return {"name": name, "stopped": stopped, **numbers}


COSTS = {"spread": 0.1, "gated": 0.2, "other": 0.3}
ROWS = (
    row(0, "spread", 0.5),
    row(0, "gated", 0.7),
    row(0, "other", None, "non_finite"),
    row(1, "gated", 0.7),
    row(1, "spread", 0.75),
    row(2, "spread", 0.8, "patience"),
    row(2, "gated", 0.72),
)
RACED = RaceRecord(60.0, False, "accuracy", COSTS, dict.fromkeys(COSTS, 40), ROWS)


def test_the_best_comes_first_and_every_recipe_has_a_row(record):
    section = race(replace(record, race=RACED))
    assert ranking(RACED) == ["spread", "gated", "other"]
    assert section.lead.startswith("3 recipes were tried on the validation nodes, within 60 seconds by the sizes")
    assert "spread was kept: no other has a better validation accuracy." in section.lead
    table = section.parts[0]
    assert [list(each) for each in table.rows] == [
        ["spread", "50.0 %", "75.0 %", "80.0 %", "15", "4", "1.5", "no longer improved"],
        ["gated", "70.0 %", "70.0 %", "72.0 %", "15", "4", "1.5", "the budget"],
        ["other", "not finite", "–", "–", "5", "4", "1.5", "diverged"],
    ]
    assert len(table.columns) == 8


def test_no_section_without_a_race(record):
    assert race(record) is None
    assert race(replace(record, race=replace(RACED, rows=ROWS[:4]))) is None
