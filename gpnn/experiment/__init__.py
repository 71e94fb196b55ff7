"""Experiments: a TOML file of rows and columns, run cell by cell, resumed, and written as tables and pictures."""

from gpnn.experiment.entry import find_entries, plain_figures
from gpnn.experiment.read import find_experiments, read_experiment
from gpnn.experiment.report import write_report
from gpnn.experiment.results import Results
from gpnn.experiment.run import run_experiment
from gpnn.experiment.spec import Cell, Experiment

__all__ = [
    "Cell",
    "Experiment",
    "Results",
    "find_entries",
    "find_experiments",
    "plain_figures",
    "read_experiment",
    "run_experiment",
    "write_report",
]
