from pathlib import Path

TABLE = """
title = "A table"
seeds = 2
[[rows]]
name = "gru"
[[rows]]
name = "linear"
settings = { model = { cell = "linear" } }
[[columns]]
name = "Digits"
settings = { data = { name = "digits" } }
"""


def write(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "some.toml").write_text(TABLE)


def test_the_quick_form_runs_reports_and_resumes(gpnn, tmp_path):
    write(tmp_path)
    result = gpnn("experiment", "some", "--quick")
    assert result.exit_code == 0, result.output
    assert "| linear | " in result.stdout
    assert "2/2  linear · Digits · seed 0" in result.stderr
    assert (tmp_path / "experiments" / "results" / "quick" / "some.md").exists()
    again = gpnn("experiment", "some", "--quick")
    assert again.exit_code == 0, again.output
    assert "seed 0" not in again.stderr


def test_some_rows_and_seeds_alone_are_run(gpnn, tmp_path):
    write(tmp_path)
    result = gpnn("experiment", "some", "--quick", "--row", "linear", "--column", "Digits", "--seeds", "1")
    assert result.exit_code == 0, result.output
    assert "1/1  linear · Digits · seed 0" in result.stderr
    assert "1 runs of 2 are not done yet" in result.stdout
    unknown = gpnn("experiment", "some", "--quick", "--row", "mlp")
    assert unknown.exit_code == 2
    assert "A row of some must be one of: gru; linear. Got 'mlp'." in unknown.stderr


def test_the_list_counts_what_is_finished(gpnn, tmp_path):
    write(tmp_path)
    result = gpnn("experiment", "list")
    assert result.exit_code == 0, result.output
    assert "A table" in result.stdout
    assert " 4 " in result.stdout


def test_an_unknown_experiment_is_one_sentence(gpnn, tmp_path):
    result = gpnn("experiment", "none")
    assert result.exit_code == 2
    assert result.stderr.startswith("gpnn: The experiment must exist.")


def test_a_folder_without_experiments_is_one_sentence(gpnn, tmp_path):
    result = gpnn("experiment", "list")
    assert result.exit_code == 2
    assert "`--folder` must hold experiments" in result.stderr
