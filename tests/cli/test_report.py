import json

import pytest

from gpnn.check import install_command

pytest.importorskip("plotly")


def test_a_run_writes_its_page_and_report_writes_it_again(gpnn, tiny, tmp_path):
    result = gpnn("train", *tiny, "--out", "run")
    assert result.exit_code == 0, result.output
    page = tmp_path / "run" / "report.html"
    assert str(page.relative_to(tmp_path)) in result.stdout
    assert "plotly" in page.read_text()
    page.unlink()
    result = gpnn("report", "run")
    assert result.exit_code == 0, result.output
    assert "Learning curves" in page.read_text()


def test_a_page_is_not_written_where_it_is_not_wanted(gpnn, tiny, tmp_path):
    assert gpnn("train", *tiny, "--out", "run", "--no-report").exit_code == 0
    assert not (tmp_path / "run" / "report.html").exists()
    result = gpnn("report", "run", "--out", "page.html", "--quiet")
    assert result.stdout == "page.html\n"
    assert (tmp_path / "page.html").exists()


def test_without_the_extra_the_run_goes_on_and_says_so(gpnn, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("gpnn.report.html.find_spec", lambda name: None)
    result = gpnn("train", *tiny, "--out", "run")
    assert result.exit_code == 0, result.output
    assert f"report.html not written: {install_command('report')}" in result.stderr
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["epochs"] == 6
    assert not (tmp_path / "run" / "report.html").exists()
    result = gpnn("report", "run")
    assert result.exit_code == 2
    assert install_command("report") in result.stderr


def test_several_runs_are_one_page(gpnn, tiny, tmp_path):
    for seed in (1, 2):
        assert gpnn("train", *tiny, f"seed={seed}", "--out", f"run{seed}", "--no-report", "-q").exit_code == 0
    result = gpnn("report", "run1", "run2")
    assert result.exit_code == 0, result.output
    assert "report in comparison.html" in result.stderr
    assert "Comparison" in (tmp_path / "comparison.html").read_text()


def test_what_is_no_finished_run_is_one_sentence(gpnn, tiny, tmp_path):
    result = gpnn("report", "nowhere")
    assert result.exit_code == 2
    assert "A run folder must hold config.toml. 'nowhere' does not." in result.stderr
    assert gpnn("train", *tiny, "--out", "run", "--no-report", "-q").exit_code == 0
    (tmp_path / "run" / "metrics.json").unlink()
    result = gpnn("report", "run")
    assert result.exit_code == 2
    assert "A report needs a finished run. 'run' is not: gpnn train --resume run" in result.stderr


def test_data_that_has_changed_since_is_one_sentence(gpnn, tiny, tmp_path):
    assert gpnn("train", *tiny, "--out", "run", "--no-report", "-q").exit_code == 0
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("num_features = 20", "num_features = 24"))
    result = gpnn("report", "run")
    assert result.exit_code == 2
    assert "data.num_features was 20 and is 24" in result.stderr
    (tmp_path / "run" / "environment.json").write_text("{}")  # as a run of an older version, which noted no settings
    result = gpnn("report", "run")
    assert result.exit_code == 2
    assert "Its model's in_channels was 20, and would be 24 now." in result.stderr
    (tmp_path / "run" / "environment.json").write_text("{")
    result = gpnn("report", "run", "run", "--out", "both.html")
    assert result.exit_code == 2
    assert "environment.json must be JSON" in result.stderr
    assert not (tmp_path / "both.html").exists()


@pytest.mark.thorough
def test_a_received_run_makes_no_folder_for_its_files(gpnn, tiny, tmp_path):
    """`disk` of a run that began elsewhere: neither report nor resume makes it."""
    words = ["engine=mapped", "disk=scratch", "model.cell=gru", "recipe=gated"]
    result = gpnn("train", *tiny, *words, "--out", "run", "--no-report", "-q")
    assert result.exit_code == 0, result.stderr
    (tmp_path / "scratch").rmdir()
    metrics = (tmp_path / "run" / "metrics.json").read_text()
    for command in (["report", "run"], ["train", "--resume", "run"]):
        result = gpnn(*command)
        assert result.exit_code == 2
        assert "`disk` of 'run' must be a folder that exists. Got 'scratch'." in result.stderr
        (tmp_path / "run" / "metrics.json").unlink(missing_ok=True)  # it is not finished
    assert not (tmp_path / "scratch").exists()
    (tmp_path / "scratch").mkdir()
    assert gpnn("train", "--resume", "run", "--no-report", "-q").exit_code == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["val_loss"] == json.loads(metrics)["val_loss"]
