"""The quick form of every table and figure, from its file to its report."""

from pathlib import Path

import pytest

from experiments.harness import Results, find_experiments, run_experiment, write_report
from experiments.harness.entry import find_entries
from experiments.harness.spec import Experiment

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
NEEDS_FILES = {"babi"}
FOUND = [each for each in find_experiments(EXPERIMENTS) if not each.name.startswith("search")]


def check(experiment: Experiment, folder: Path) -> None:
    quick = experiment.quick_form()
    results = Results.open(folder / "cells" / f"{quick.name}.jsonl")
    run_experiment(quick, results)
    files = write_report(quick, results, folder, command="c")
    assert {file.suffix for file in files} >= {".md", ".csv"}
    assert all(file.stat().st_size for file in files)
    first = [entry for entry in find_entries(quick, results) if entry.measure == quick.measure]
    finished = [entry for entry in first if entry.mean is not None]
    if quick.measure not in ("cpu_seconds_to_target", "messages_to_solve"):  # which may not be reached
        assert finished == first
    text = (folder / f"{quick.name}.md").read_text(encoding="utf-8")
    assert all(f"| {row.name} |" in text for row in quick.rows)


@pytest.mark.thorough
@pytest.mark.parametrize("experiment", [e for e in FOUND if e.name not in NEEDS_FILES], ids=lambda each: each.name)
def test_the_quick_form_runs_from_file_to_report(experiment, tmp_path):
    check(experiment, tmp_path)


@pytest.mark.parametrize("experiment", [e for e in FOUND if e.name in NEEDS_FILES], ids=lambda each: each.name)
def test_the_quick_form_on_real_files(experiment, data_root, tmp_path):
    check(experiment, tmp_path)


def test_the_paper_s_tables_come_first_and_searches_last():
    names = [each.name for each in find_experiments(EXPERIMENTS)]
    tables = [*(f"table{number}" for number in range(1, 5)), "table4_seconds", "table5", "table6", "table7"]
    assert names[: len(tables)] == tables
    assert names[len(tables) : len(tables) + 4] == ["figure1", "figure2ab", "figure2c", "figure3"]
    assert {"babi", "time_to_accuracy", "sweep"} <= set(names)
    first_search = next(at for at, name in enumerate(names) if name.startswith("search"))
    assert all(name.startswith("search") for name in names[first_search:])
