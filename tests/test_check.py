"""The checks of arguments that all rooms share."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from gpnn.check import (
    check_choice,
    check_count,
    check_node,
    check_options,
    check_probabilities,
    check_range,
    check_seed,
    check_sizes,
    convert,
    describe,
    install_command,
    nearest_setting,
    parse_memory,
    unknown_settings,
    wrong_types,
)


@pytest.mark.parametrize("value", [3, np.int32(3), torch.tensor(3)])
def test_a_count_is_any_integer(value):
    count = check_count("k", value)
    assert count == 3
    assert type(count) is int


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "2", None, float("inf"), torch.tensor(2.0), np.bool_(True)])
def test_a_count_is_nothing_else(value):
    with pytest.raises(ValueError, match=r"`k` must be an integer of at least 1\. Got"):
        check_count("k", value)


def test_a_count_has_a_lower_bound():
    assert check_count("cut", 0, at_least=0) == 0
    with pytest.raises(ValueError, match=r"`cut` must be an integer of at least 2\. Got 1\."):
        check_count("cut", 1, at_least=2)


@pytest.mark.parametrize("value", [-1, 2**63, 1.5, "3", None, True])
def test_a_seed_is_an_integer_that_generators_accept(value):
    check_seed("seed", np.int64(3))
    with pytest.raises(ValueError, match=r"`seed` must be an integer from 0 to 2\*\*63 - 1\. Got"):
        check_seed("seed", value)


def test_options_are_those_of_their_owner():
    check_options("'flood_fill'", ["leftover"], {"leftover": 1})
    with pytest.raises(ValueError, match=r"of 'x' must be one of depth\. Got dept, b \(the nearest is depth\)"):
        check_options("'x'", {"depth": 1, "dept": 2, "b": 3}, ["depth"])
    with pytest.raises(ValueError, match=r"An option of 'x' must be left out: it accepts none\. Got a\."):
        check_options("'x'", ["a"], [])


@pytest.mark.parametrize(
    ("value", "hint"), [(1.5, int), (True, int), (True, float), ("1", int), (3, tuple[int, ...]), ([1, "a"], list[int])]
)
def test_what_does_not_fit_is_refused(value, hint):
    with pytest.raises(TypeError):
        convert(value, hint)


def test_types_in_words():
    assert describe(Literal["a", "b"] | tuple[float, ...]) == "'a' or 'b' or a list (each a number)"
    assert describe(str | None) == "text or nothing"
    assert describe(dict[str, int]) == "a table"


def test_numbers_of_numpy_fit():
    assert (
        wrong_types({"a": np.int64(3), "b": np.float32(0.5), "c": None}, {"a": int, "b": float, "c": str | None}) == []
    )
    assert type(convert(np.int64(3), int)) is int


@pytest.mark.parametrize("value", [-1, 4, 1.0, False])
def test_a_node_is_an_id_of_the_graph(value):
    assert check_node("root", 3, 4) == 3
    with pytest.raises(ValueError, match=r"`root` must be a node, from 0 to 3\. Got"):
        check_node("root", value, 4)


def test_a_choice_is_one_of_a_table_or_tuple():
    check_choice("virtual", None, (None, "graph"))
    check_choice("rule", "mean", {"mean": 1})
    with pytest.raises(ValueError, match=r"`virtual` must be one of None, graph\. Got 'all'\."):
        check_choice("virtual", "all", (None, "graph"))


def test_sizes_and_probabilities():
    check_sizes(in_channels=0, hidden_channels=1)
    with pytest.raises(ValueError, match=r"`hidden_channels` must be at least 1\. Got 0\."):
        check_sizes(hidden_channels=0)
    check_probabilities(dropout=0.0)
    with pytest.raises(ValueError, match=r"`dropout` must be at least 0 and below 1\. Got 1\.0\."):
        check_probabilities(dropout=1.0)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_numbers_out_of_range(value):
    with pytest.raises(ValueError, match=r"`mixing` must be from 0 to 1\. Got"):
        check_range("mixing", value, 0, 1)
    check_range("mixing", 1, 0, 1)
    with pytest.raises(ValueError, match=r"`degree` must be at least 2\. Got"):
        check_range("degree", value, 2)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("16GiB", 16 * 2**30),
        ("20GB", 20e9),
        ("512 MiB", 2**29),
        ("1.5tb", 1.5e12),
        ("64", 64e9),
        (0.5, 5e8),
        ("auto", None),
    ],
)
def test_memory_has_a_unit_or_is_gb(value, size):
    assert parse_memory("memory", value) == size


@pytest.mark.parametrize(
    "value", [0, -1.0, "0GiB", "-1GB", "16 gigs", "GiB", "", True, float("inf"), float("nan"), "1e999"]
)
def test_memory_is_nothing_else(value):
    with pytest.raises(
        ValueError, match=r"`memory` must be an amount such as 16GiB or 20GB, a number of GB, or auto\. Got"
    ):
        parse_memory("memory", value)


ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_packages_of_an_extra_are_named(monkeypatch):
    """They are on the package index, and gpnn need not be."""
    lines = ["numpy>=1", "plotly>=6; extra == 'report'", 'jinja2>=3.1 ; extra == "report"', "ogb; extra == 'ogb'"]
    monkeypatch.setattr("gpnn.check.requires", lambda name: lines)
    assert install_command("report") == 'pip install "plotly>=6" "jinja2>=3.1"'
    assert install_command("ogb") == 'pip install "ogb"'


def test_a_clone_that_is_not_installed_names_the_extra(monkeypatch):
    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("gpnn.check.requires", missing)
    assert install_command("report") == 'pip install ".[report]" in a clone of gpnn'


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_install_from_a_clone_what_is_there(path):
    """gpnn is on no index: `pip install gpnn` would find nothing, or another's package."""
    for command in re.findall(r"pip install ([^`\n#]*)", path.read_text()):
        assert not re.search(r"(?<![\w./-])gpnn(?![-\w/])", command), command
        for extras in re.findall(r"\[([a-z,]+)\]", command):
            assert set(extras.split(",")) <= set(EXTRAS), command


def test_options_tables_and_sections_may_be_settings():
    assert unknown_settings(["schedule.intra", "data.num_nodes", "model.cell_options.alpha", "train", "budget"]) == []


def test_wrong_names_come_by_section_each_once():
    found = unknown_settings(["train.epochs", "modl.cell", "train.epoch", "modl.k"])
    assert [sentence.split("`")[1] for sentence in found] == ["train.epoch", "modl"]


def test_what_others_call_it():
    assert nearest_setting("lr") == "train.learning_rate"


def test_a_wrong_setting_is_told_without_torch(tmp_path):
    code = (
        "import sys; sys.argv = ['gpnn', 'train', 'cora', 'train.epoch=3']\n"
        "from gpnn.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert shown.stdout.split() == ["2", "False", "False"]
    assert "Did you mean `train.epochs`?" in shown.stderr
