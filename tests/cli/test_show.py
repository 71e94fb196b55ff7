from gpnn.cli.show import show_race, table
from gpnn.race import RaceRecord


def test_the_first_column_is_text_and_the_others_are_figures():
    result = table(["name", "count"], [("a", 1000)])
    assert [column.justify for column in result.columns] == ["left", "right"]
    assert list(result.columns[1].cells) == ["1,000"]


def test_who_does_not_take_part_in_a_race_is_told(capsys):
    show_race(RaceRecord(9.0, True, "accuracy", {"a": 0.1}, {"a": 8}, left_out={"b": 7.0}, too_large={"c": "9 GB"}))
    shown = capsys.readouterr().err
    assert "race: too long for it: an epoch of b 7 s; a longer budget=… includes them" in shown
    assert "race: c does not fit in memory: 9 GB" in shown
