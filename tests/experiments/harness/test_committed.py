"""What is committed under experiments/results belongs to the experiments as they are."""

import re
from pathlib import Path

import pytest

import experiments.harness.report as report
from experiments.harness import Results, find_experiments, write_report

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
FOLDER = EXPERIMENTS / "results"
FOUND = find_experiments(EXPERIMENTS)
PICTURE = re.compile(r"^!\[.*\n\n", re.M)


def read(experiment) -> Results:
    return Results.open(FOLDER / "cells" / f"{experiment.name}.jsonl")


@pytest.mark.parametrize("experiment", FOUND, ids=lambda each: each.name)
def test_every_line_is_a_cell_with_what_its_experiment_may_hold(experiment):
    outcomes, keys = read(experiment).outcomes, {cell.key for cell in experiment.cells()}
    assert [outcome for key, outcome in outcomes.items() if key not in keys] == []
    assert [outcome for outcome in outcomes.values() if outcome.metrics != experiment.keep(outcome.metrics)] == []


@pytest.mark.parametrize("experiment", FOUND, ids=lambda each: each.name)
def test_the_report_is_made_of_the_cells(experiment, tmp_path, monkeypatch):
    results = read(experiment)
    if any(cell.key not in results.outcomes for cell in experiment.cells()):
        pytest.skip("not all of its cells are finished")
    monkeypatch.setattr(report, "_draw", lambda *_: [])
    committed = (FOLDER / f"{experiment.name}.md").read_text(encoding="utf-8")
    command = re.search(r"^- Command: `(.*)`$", committed, re.M)[1]
    write_report(experiment, results, tmp_path, command=command)
    assert PICTURE.sub("", committed) == (tmp_path / f"{experiment.name}.md").read_text(encoding="utf-8")
    made = (tmp_path / f"{experiment.name}.csv").read_text(encoding="utf-8")
    assert (FOLDER / f"{experiment.name}.csv").read_text(encoding="utf-8") == made


def test_every_result_has_its_experiment():
    names = {each.name for each in FOUND}
    assert {path.stem for path in FOLDER.glob("*.md")} <= names
    assert {path.stem for path in (FOLDER / "cells").glob("*.jsonl")} <= names


def test_the_index_names_every_experiment():
    index = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[(\w+)\]\(results/\1\.md\) \|", index, re.M)) == {each.name for each in FOUND}
