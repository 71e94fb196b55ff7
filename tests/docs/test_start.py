"""The first example that a reader tries: its commands run as the page has them, and it convinces."""

import csv
import json
import re

import pytest
from typer.testing import CliRunner

from gpnn.cli import app
from tests.docs.test_commands import ROOT, command_lines
from tests.docs.test_pages import blocks

PAGE = ROOT / "docs" / "start.md"


@pytest.mark.thorough
def test_the_commands_of_the_first_example_give_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(blocks("start.md", "python")[0][1], names)
    commands = [words for words in command_lines(PAGE) if "friends" in " ".join(words)]
    assert [words[0] for words in commands] == ["data", "train", "predict"]
    for words in commands:
        result = CliRunner().invoke(app, [*words, "--quiet"])
        assert result.exit_code == 0, result.output
    with (tmp_path / "predictions.csv").open(newline="") as file:
        silent = [row for row in csv.DictReader(file) if row["labelled"] == "false"]
    right = sum(row["prediction"] == names["club"][row["node"]] for row in silent)
    stated = re.search(r"The (\d+) people who did not say theirs all get the right one", PAGE.read_text())
    assert len(silent) == int(stated[1])
    assert right >= len(silent) - 1  # another machine rounds otherwise
    assert json.loads((tmp_path / "runs" / "friends" / "metrics.json").read_text())["test_accuracy"] > 0.8
