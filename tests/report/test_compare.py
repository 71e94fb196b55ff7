import pytest

from gpnn.report import write_comparison
from gpnn.report.compare import differing, read_runs
from tests.report.conftest import TINY, make_run
from tests.report.test_html import Outline, charts_of

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "second", [*TINY, "seed=7", "train.learning_rate=0.02"])


def test_two_runs_side_by_side(run, second, tmp_path):
    write_comparison([run.path, second.path], tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text()
    outline = Outline(page)
    assert not outline.open
    assert "train.learning_rate" in outline.text
    assert "partition.k" not in outline.text
    charts = charts_of(page)
    assert [trace["name"] for trace in charts["curves-chart"]["views"]["validation accuracy"]] == ["first", "second"]
    assert charts["bars"]["views"]["test accuracy"][0]["x"] == [
        each.read_metrics()["test_accuracy"] for each in (run, second)
    ]


def test_runs_of_other_data_stand_apart(run, tmp_path):
    words = [word.replace("num_nodes=90", "num_nodes=80") for word in TINY]
    other = make_run(tmp_path / "other", words)
    write_comparison([run.path, other.path, run.path], tmp_path / "all.html")
    page = (tmp_path / "all.html").read_text()
    assert not Outline(page).open
    assert "planted, classification of 90 nodes" in page
    assert "planted, classification of 80 nodes" in page
    charts = charts_of(page)
    assert [len(charts[name]["views"]["test accuracy"][0]["x"]) for name in ("bars", "bars-1")] == [2, 1]


def test_shares_are_percentages_and_losses_are_not(run, second, tmp_path):
    write_comparison([run.path, second.path], tmp_path / "both.html")
    charts = charts_of((tmp_path / "both.html").read_text())
    assert charts["curves-chart"]["layout"]["yaxis"] == {"tickformat": ".0%"}
    assert list(charts["curves-chart"]["views"]) == ["validation accuracy"]
    assert charts["curves-chart"]["views"]["validation accuracy"][0]["hovertemplate"] == "epoch %{x}: %{y:.1%}"
    assert list(charts["curves-loss"]["views"]) == ["validation loss", "training objective"]
    assert charts["curves-loss"]["layout"]["yaxis"] == {}


def test_a_run_that_still_trains_takes_part(run, tmp_path):
    (tmp_path / "living").mkdir()
    for name in ("config.toml", "environment.json", "history.jsonl"):
        (tmp_path / "living" / name).write_text((run.path / name).read_text())
    write_comparison([run.path, tmp_path / "living"], tmp_path / "both.html")
    assert "–" in Outline((tmp_path / "both.html").read_text()).text


def test_runs_of_one_name_are_told_apart(run):
    names = [each.name for each in read_runs([run.path, run.path.parent / "." / "first"])]
    assert names == [str(run.path)] * 2


def test_what_is_no_run_is_refused(run, tmp_path):
    with pytest.raises(ValueError, match=r"A run folder must hold config.toml"):
        write_comparison([run.path, tmp_path], tmp_path / "both.html")
    assert not (tmp_path / "both.html").exists()


def test_only_what_differs_is_named():
    assert differing([{"a": 1}, {"a": 1, "b": 2}]) == [("b", [None, 2])]
