"""The command that installs an extra, and the commands of the pages."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from gpnn.extra import install_command

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_packages_of_an_extra_are_named(monkeypatch):
    """They are on the package index, and gpnn need not be."""
    lines = ["numpy>=1", "plotly>=6; extra == 'report'", 'jinja2>=3.1 ; extra == "report"', "ogb; extra == 'ogb'"]
    monkeypatch.setattr("gpnn.extra.requires", lambda name: lines)
    assert install_command("report") == 'pip install "plotly>=6" "jinja2>=3.1"'
    assert install_command("ogb") == 'pip install "ogb"'


def test_a_clone_that_is_not_installed_names_the_extra(monkeypatch):
    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("gpnn.extra.requires", missing)
    assert install_command("report") == 'pip install ".[report]" in a clone of gpnn'


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_install_from_a_clone_what_is_there(path):
    """gpnn is on no index: `pip install gpnn` would find nothing, or another's package."""
    for command in re.findall(r"pip install ([^`\n#]*)", path.read_text()):
        assert not re.search(r"(?<![\w./-])gpnn(?![-\w/])", command), command
        for extras in re.findall(r"\[([a-z,]+)\]", command):
            assert set(extras.split(",")) <= set(EXTRAS), command
