from dataclasses import replace
from pathlib import Path

import pytest

from experiments.harness.read import find_experiments, find_file, read_experiment
from experiments.harness.settings import lay_over
from experiments.harness.spec import Experiment, Line

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def write(folder: Path, text: str, name: str = "some.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


ROWS = """
title = "Two by two"
seeds = 2
[settings.train]
epochs = 1
[[rows]]
name = "a"
[[rows]]
name = "b"
settings = { train = { epochs = 2 } }
at = { Two = { train = { epochs = 3 } } }
[[columns]]
name = "One"
settings = { data = { name = "digits" } }
[[columns]]
name = "Two"
settings = { data = { name = "planted" } }
"""


def test_a_cell_is_row_column_and_seed_with_settings_laid_over_each_other(tmp_path):
    cells = list(read_experiment(write(tmp_path, ROWS)).cells())
    assert [(cell.row, cell.column, cell.seed) for cell in cells[:4]] == [
        ("a", "One", 0),
        ("a", "Two", 0),
        ("b", "One", 0),
        ("b", "Two", 0),
    ]
    assert len(cells) == 8
    assert [cell.settings["train"]["epochs"] for cell in cells[:4]] == [1, 1, 2, 3]
    assert cells[1].settings["data"] == {"name": "planted"}


def test_rows_that_are_no_finalists_have_the_first_seeds_alone(tmp_path):
    text = ROWS.replace("seeds = 2", 'seeds = 4\nfirst_seeds = 1\nfinalists = ["b"]')
    cells = list(read_experiment(write(tmp_path, text)).cells())
    assert [sum(cell.row == row for cell in cells) for row in "ab"] == [2, 8]
    with pytest.raises(ValueError, match=r"^The `finalists` of some\.toml must be rows\. Got 'c'\.$"):
        read_experiment(write(tmp_path, text.replace('["b"]', '["c"]')))


def test_a_key_changes_with_a_setting_and_with_the_seed_only(tmp_path):
    first = [cell.key for cell in read_experiment(write(tmp_path, ROWS)).cells()]
    renamed = [cell.key for cell in read_experiment(write(tmp_path, ROWS.replace('"a"', '"z"'))).cells()]
    changed = [cell.key for cell in read_experiment(write(tmp_path, ROWS.replace("epochs = 2", "epochs = 5"))).cells()]
    assert len(set(first)) == 8
    assert renamed == first
    assert [old == new for old, new in zip(first, changed)] == [True, True, False, True] * 2


def test_a_grid_is_every_combination_and_samples_are_distinct_ones_of_it(tmp_path):
    grid = 'title = "G"\n{}[grid]\n"train.epochs" = [1, 2, 3]\n"model.head" = [[], [4]]\n[[columns]]\nname = "One"\n'
    whole = read_experiment(write(tmp_path, grid.format("")))
    some = read_experiment(write(tmp_path, grid.format("samples = 4\n")))
    assert len(whole.rows) == 6
    assert "epochs=2, head=[4]" in [row.name for row in whole.rows]
    names = [row.name for row in some.rows]
    assert len(set(names)) == 4
    assert names == [row.name for row in read_experiment(tmp_path / "some.toml").rows]
    assert set(names) <= {row.name for row in whole.rows}


def test_a_row_keeps_to_the_columns_it_names(tmp_path):
    kept = ROWS.replace('name = "a"', 'name = "a"\nonly = ["Two"]')
    cells = [(cell.row, cell.column) for cell in read_experiment(write(tmp_path, kept)).cells()]
    assert ("a", "One") not in cells
    assert cells.count(("a", "Two")) == 2


def test_the_quick_form_has_one_seed_and_its_own_data():
    one = Line("one", {"data": {"name": "nell", "rate": 0.1}, "train": {"epochs": 300, "clip": 1.0}})
    cells = list(Experiment("x", "X", (Line("a"),), (one,), seeds=5).quick_form().cells())
    assert len(cells) == 1
    assert "rate" not in cells[0].settings["data"]
    assert cells[0].settings["data"]["name"] == "planted"
    assert cells[0].settings["train"] == {"epochs": 3, "clip": 1.0, "check_every": 1}


def test_layers_merge_without_touching_the_lower_ones():
    lower = {"model": {"head": [1], "cell": "gru"}}
    assert lay_over(lower, {"model": {"head": []}}, {"seed": 1}) == {"model": {"head": [], "cell": "gru"}, "seed": 1}
    assert lower == {"model": {"head": [1], "cell": "gru"}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("title = ", "some.toml must be TOML"),
        ('title = "T"\n', "must have rows and columns. Got 0 and 0"),
        ('title = "T"\nspeed = 1\n[[rows]]\nname = "a"\n[[columns]]\nname = "b"\n', "Got 'speed'"),
        ('title = "T"\n[[rows]]\nseed = 1\nname = "a"\n[[columns]]\nname = "b"\n', "Got 'seed'"),
        ('title = "T"\n[[rows]]\n[[columns]]\nname = "b"\n', "Got no name"),
        (
            'title = "T"\nsamples = 3\n[grid]\n"seed" = [1, 2]\n[[columns]]\nname = "b"\n',
            "at most the grid's 2 rows. Got 3",
        ),
        (
            'title = "T"\npairs = [["a", "c"]]\n[[rows]]\nname = "a"\n[[columns]]\nname = "b"\n',
            r"two rows. Got \['a', 'c'\]",
        ),
        (
            'title = "T"\npicture = "pie"\n[[rows]]\nname = "a"\n[[columns]]\nname = "b"\n',
            "`picture` of some.toml must be one of bars, .* Got 'pie'",
        ),
        (
            'title = "T"\n[[rows]]\nname = "a"\nsettings = { kind = "magic" }\n[[columns]]\nname = "b"\n',
            "A `kind` of some.toml must be one of training, .* Got 'magic'",
        ),
        (
            'title = "T"\n[[rows]]\nname = "a"\nonly = ["c"]\n[[columns]]\nname = "b"\n',
            "The row 'a' of some.toml must name columns. Got 'c'",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read_experiment(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"The experiment must exist\. .*none\.toml does not"):
        read_experiment(tmp_path / "none.toml")


@pytest.mark.thorough
def test_every_experiment_here_is_made_of_settings_that_exist():
    from experiments.harness.kinds import KINDS

    experiments = find_experiments(EXPERIMENTS)
    assert {"ours", "ablation", "paper"} <= {each.name for each in experiments}
    for each in experiments:
        for cell in replace(each, seeds=1).cells():
            assert KINDS[cell.kind].problems(cell.filled_settings) == [], (each.name, cell.row)


def test_a_line_may_have_fewer_seeds_by_column():
    rows = (Line("a", seeds={"One": 1}), Line("b", seeds=2), Line("c"))
    made = Experiment("x", "X", rows, (Line("One"), Line("Two", seeds=3), Line("None", seeds=0)), seeds=4)
    count = {(row.name, column): 0 for row in rows for column in ("One", "Two")}
    for cell in made.cells():
        count[cell.row, cell.column] += 1
    assert list(count.values()) == [1, 3, 2, 2, 4, 3]


def test_plain_settings_leave_nothing_to_the_defaults_that_decides_a_result():
    from dataclasses import fields

    from experiments.harness.plain import PLAIN
    from gpnn.config.sections import SECTIONS

    elsewhere = {"name", "root", "file", "options", "runner", "checkpoint_every", "checkpoint_seconds"}
    for section, kind in SECTIONS.items():
        assert {each.name for each in fields(kind)} - elsewhere <= set(PLAIN[section]), section


def test_the_default_recipe_of_the_tables_is_the_library_s():
    from experiments.harness.plain import PLAIN
    from gpnn.config import Config, parse_config
    from gpnn.pipeline import resolve_options
    from gpnn.train.recipe import choose_weight_decay

    row = next(row for row in read_experiment(find_file(EXPERIMENTS, "ours")).rows if row.name == "default recipe")
    written, _ = parse_config(lay_over(PLAIN, row.settings))
    default = replace(
        Config(),
        data=replace(Config().data, scale_features="rows"),  # what "auto" is where no feature is negative, as here
        partition=replace(Config().partition, method="flood_fill"),  # what "auto" is where it is balanced
        schedule=replace(Config().schedule, name="partitioned"),  # what "auto" is where all fits in memory
        model=replace(Config().model, standardize=False),  # what "auto" is of words
        train=replace(Config().train, weight_decay=choose_weight_decay(1433), tolerance=0.0),  # Cora's columns
    )
    for section in ("data", "partition", "schedule", "train"):
        assert getattr(written, section) == getattr(default, section), section
    assert resolve_options(vars(written.model), has_features=True) == resolve_options(
        vars(default.model), has_features=True
    )


def test_a_path_may_start_in_the_folder_of_the_file(tmp_path, monkeypatch):
    text = """
    [[rows]]
    name = "a"
    settings = { data = { name = "diel", root = "@folder/data", seed = "@seed" } }
    [[columns]]
    name = "One"
    """
    cell = next(read_experiment(write(tmp_path, text)).cells())
    assert cell.filled_settings["data"] == {"name": "diel", "root": str(tmp_path / "data"), "seed": 0}
    monkeypatch.chdir(tmp_path)
    here = next(read_experiment(Path(write(tmp_path, text).name)).cells())
    assert here.filled_settings["data"]["root"] == "data"
    assert here.key == cell.key
