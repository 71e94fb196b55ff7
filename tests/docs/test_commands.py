"""Every command line of every page names a command, options and settings that exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from gpnn.build.unchanged import dataset_options
from gpnn.cli import app
from gpnn.config import setting_names
from gpnn.data import DATASETS
from gpnn.data.stored import INDEX
from gpnn.divide import METHODS, method_options
from gpnn.schedule import SCHEDULES
from gpnn.schedule.make_schedule import schedule_options

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
SETTING = re.compile(r"(?<![\w.])((?:data|partition|schedule|model|train)\.[a-z_]+)=")
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def command_lines(path: Path) -> list[list[str]]:
    """The words after `$ gpnn` of each line in a console block."""
    blocks = [block.replace("\\\n", " ") for block in CONSOLE.findall(path.read_text())]  # a line may go on
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line[7:], comments=True) for line in lines if line.startswith("$ gpnn ")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_and_options_exist(path):
    for words in command_lines(path):
        command = typer.main.get_command(app)
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"gpnn has no command {words[0]}"
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            if word.startswith("-"):
                assert word.partition("=")[0] in known, f"gpnn {command.name} has no option {word}"


def test_there_are_command_lines_to_check():
    assert sum(len(command_lines(path)) for path in PAGES) > 10


@pytest.mark.parametrize("path", [path for path in PAGES if path.name != "mistakes.md"], ids=lambda path: path.name)
def test_settings_exist(path, tmp_path):
    known = set(setting_names()) | {f"schedule.{name}" for schedule in SCHEDULES for name in schedule_options(schedule)}
    (tmp_path / INDEX).touch()
    folders = (str(tmp_path.parent), str(tmp_path))  # tables, and a converted graph
    known |= {f"data.{name}" for dataset in (*DATASETS, *folders) for name in dataset_options(dataset)}
    known |= {f"partition.{name}" for method in METHODS for name in method_options(method)}
    found = SETTING.findall(path.read_text())
    assert set(found) <= known | {"data.seed"}, set(found) - known
