"""Help with examples for every command, and completion for the shell."""

from typing import Any

import pytest
import typer.main

from gpnn.cli import app
from gpnn.cli.words import DATASET_NAMES, METHOD_NAMES, SECTION_NAMES, complete_method, complete_words


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found += commands(command, (*path, name)) if inner else [((*path, name), command)]
    return found


ALL = commands(typer.main.get_command(app))


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_has_an_example(gpnn, path, command) -> None:
    assert f"`gpnn {' '.join(path)}" in command.help.replace("`torchrun -m ", "`")
    result = gpnn(*path, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_is_quiet_or_json_when_asked(path, command) -> None:
    assert {"--quiet", "--json"} <= {word for option in command.params for word in option.opts}


def test_what_the_shell_is_offered_is_what_there_is() -> None:
    from gpnn import config, data
    from gpnn.divide import METHODS

    assert tuple(data.DATASETS) == DATASET_NAMES
    assert METHODS == METHOD_NAMES
    assert tuple(f"{name}." for name in config.SECTIONS) == SECTION_NAMES
    assert complete_words("cit") == ["citeseer"]
    assert complete_method("re") == ["refined"]


def test_the_shell_asks_and_is_answered(gpnn, monkeypatch) -> None:
    monkeypatch.setenv("_GPNN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "gpnn train pub")
    monkeypatch.setenv("COMP_CWORD", "2")
    from typer.testing import CliRunner

    assert CliRunner().invoke(app, [], prog_name="gpnn").stdout.split() == ["pubmed"]
