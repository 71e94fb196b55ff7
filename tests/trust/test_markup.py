"""Names that hold markup: no file that is written for a browser holds them as markup."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import gpnn
from experiments.harness import Experiment, Results, write_report
from experiments.harness.spec import Line
from gpnn.schedule.draw import draw_schedule

HOSTILE = '<script>alert("1")</script> & $x_{ | ]]> "\'\n<!-- \u202e'


def no_markup(svg: str) -> None:
    """Raise unless the picture is well-formed and has no element of the name's making."""
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
    assert "script" not in names


@pytest.mark.filterwarnings("ignore:Glyph")  # the right-to-left mark has none
def test_an_experiment(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = (Line(HOSTILE), Line("plain"))
    experiment = Experiment("tiny", "Tiny", rows, (Line(HOSTILE),), settings={}, seeds=2)
    results = Results.open(tmp_path / "cells.jsonl")
    for cell in experiment.cells():
        results.add(cell, {"test_accuracy": 0.5 + cell.seed / 10})
    files = write_report(experiment, results, tmp_path, command="gpnn experiment tiny")
    markdown = (tmp_path / "tiny.md").read_text()
    assert "<script" not in markdown
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {3}  # no name opens a column
    pictures = [file for file in files if file.suffix == ".svg"]
    assert pictures
    for picture in pictures:
        no_markup(picture.read_text())


def test_a_drawing_of_a_schedule() -> None:
    graph = gpnn.Graph([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4)
    part = gpnn.Partition([0, 0, 1, 1], 2)
    schedule = gpnn.schedule.partitioned(graph, part, rounds=1)
    no_markup(draw_schedule(schedule, partition=part, title=HOSTILE))
