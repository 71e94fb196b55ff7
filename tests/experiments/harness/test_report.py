import csv
from dataclasses import replace

import pytest

from experiments.harness import Experiment, Results, write_report
from experiments.harness.pairs import compare_pairs
from experiments.harness.spec import Line

TABLE = Experiment(
    "some",
    "Some table",
    (Line("ours", paper={"One": 50.0}), Line("theirs", {"model": {"cell": "linear"}}, only=("One",))),
    (Line("One"), Line("Two", {"data": {"name": "digits"}})),
    seeds=3,
    notes=("A note.",),
    pairs=(("ours", "theirs"),),
)


@pytest.fixture
def results(tmp_path) -> Results:
    """Fabricated: ours 60, 62, 64 on One, and one of three seeds on Two; theirs 59, 60, 61."""
    made = Results.open(tmp_path / "cells" / "some.jsonl")
    for cell in TABLE.cells():
        if cell.column == "One":
            value = 0.60 + 0.02 * cell.seed if cell.row == "ours" else 0.59 + 0.01 * cell.seed
            made.add(cell, {"test_accuracy": value, "val_accuracy": 0.7, "seconds": 2.0})
        elif cell.seed == 0:
            made.add(cell, {"test_accuracy": 0.9, "val_accuracy": 0.8, "seconds": 4.0})
    return made


def test_markdown_shows_means_deviations_papers_and_what_is_missing(tmp_path, results):
    write_report(TABLE, results, tmp_path, command="gpnn experiment some")
    text = (tmp_path / "some.md").read_text()
    assert "| ours | 62.0 ± 2.0 (50.0, +12.0†) | 90.0 [1] |" in text
    assert "| theirs | 60.0 ± 1.0 | – |" in text
    assert "- A note." in text
    assert "- 7 runs, 16 seconds of training in all." in text
    assert "- 2 runs of 9 are not done yet; `gpnn experiment some` does them." in text
    assert "- Machine: not recorded (7 of 7 runs)." in text
    assert "- Command: `gpnn experiment some`" in text


def test_csv_holds_a_line_for_each_place(tmp_path, results):
    write_report(TABLE, results, tmp_path, command="c")
    with (tmp_path / "some.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["row"], row["column"], row["seeds"]) for row in rows] == [
        ("ours", "One", "3"),
        ("ours", "Two", "1"),
        ("theirs", "One", "3"),
    ]
    assert (float(rows[0]["mean"]), float(rows[0]["deviation"])) == pytest.approx((0.62, 0.02))
    assert (rows[0]["validation"], rows[0]["paper"], rows[1]["paper"]) == ("0.7", "0.5", "")


def test_the_picture_is_there_where_matplotlib_is(tmp_path, results):
    pytest.importorskip("matplotlib")
    files = write_report(TABLE, results, tmp_path, command="c")
    assert (tmp_path / "some.svg") in files
    assert "![Some table](some.svg)" in (tmp_path / "some.md").read_text()


def test_pairs_are_compared_seed_by_seed(tmp_path, results):
    (pair,) = compare_pairs(TABLE, results)  # differences 1, 2, 3: t = 2 / (1 / √3) with two degrees of freedom
    assert (pair.difference, pair.deviation, pair.seeds, pair.wins) == (pytest.approx(2.0), pytest.approx(1.0), 3, 3)
    assert pair.p_value == pytest.approx(0.07418, abs=1e-4)
    write_report(TABLE, results, tmp_path, command="c")
    assert "| ours | theirs | One | +2.00 ± 1.00 | 3 | 3 | 0.074 |" in (tmp_path / "some.md").read_text()


def test_a_pair_without_a_common_seed_is_left_out(tmp_path):
    made = Results.open(tmp_path / "some.jsonl")
    for cell in TABLE.cells():
        if cell.column == "One" and (cell.row == "ours") == (cell.seed == 0):
            made.add(cell, {"test_accuracy": 0.5})
    assert compare_pairs(TABLE, made) == []
    write_report(TABLE, made, tmp_path, command="c")
    assert "Paired" not in (tmp_path / "some.md").read_text()


def test_what_is_far_from_print_is_said_with_its_reason(tmp_path, results):
    write_report(TABLE, results, tmp_path, command="c")
    text = (tmp_path / "some.md").read_text()
    assert "with † where that is more than two of our deviations" in text
    assert "- **ours**: One +12.0. We did not trace why." in text
    told = replace(TABLE, rows=(replace(TABLE.rows[0], why="Another penalty."), TABLE.rows[1]))
    write_report(told, results, tmp_path, command="c")
    assert "- **ours**: One +12.0. Another penalty." in (tmp_path / "some.md").read_text()


def test_within_two_deviations_nothing_is_marked(tmp_path, results):
    near = replace(TABLE, rows=(replace(TABLE.rows[0], paper={"One": 58.5}), TABLE.rows[1]))
    write_report(near, results, tmp_path, command="c")
    text = (tmp_path / "some.md").read_text()
    assert "62.0 ± 2.0 (58.5, +3.5)" in text
    assert "†" not in text


def test_a_printed_number_without_ours_is_shown(tmp_path, results):
    more = replace(TABLE, rows=(replace(TABLE.rows[0], paper={"Two": 91.5}), TABLE.rows[1]), seeds=0)
    write_report(more, results, tmp_path, command="c")
    assert "| ours | – | – (91.5) |" in (tmp_path / "some.md").read_text()


def test_further_measures_have_tables_of_their_own_or_columns_of_one(tmp_path, results):
    both = replace(TABLE, also=("seconds",))
    write_report(both, results, tmp_path, command="c")
    text = (tmp_path / "some.md").read_text()
    assert "**test accuracy, percent**" in text
    assert "**seconds**\n\n| | One | Two |" in text
    one = replace(both, columns=TABLE.columns[:1], rows=(replace(TABLE.rows[0], paper={"seconds": 3.0}),), pairs=())
    write_report(one, results, tmp_path, command="c")
    text = (tmp_path / "some.md").read_text()
    assert "| | test accuracy, percent | seconds |" in text
    assert "| ours | 62.0 ± 2.0 | 2 ± 0 (3, -1†) |" in text


def test_the_machines_of_the_cells_are_named(tmp_path, results):
    for cell in TABLE.cells():
        if cell.seed == 0:
            results.add(cell, {"test_accuracy": 0.5, "machine": "four cores"})
    write_report(TABLE, results, tmp_path, command="c")
    assert "- Machine: four cores; or not recorded (4 of 7 runs)." in (tmp_path / "some.md").read_text()
