"""Experiments: a TOML file of rows and columns, run cell by cell, resumed, and written as tables and pictures."""

from experiments.harness.entry import find_entries, plain_numbers
from experiments.harness.read import find_experiments, find_file, read_experiment
from experiments.harness.report import write_report
from experiments.harness.results import Results
from experiments.harness.run import run_experiment
from experiments.harness.spec import Cell, Experiment

__all__ = [
    "Cell",
    "Experiment",
    "Results",
    "find_entries",
    "find_experiments",
    "find_file",
    "plain_numbers",
    "read_experiment",
    "run_experiment",
    "write_report",
]
