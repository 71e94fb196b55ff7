"""The report of a regression: numbers beside numbers, and ranges in the place of classes."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from gpnn.distributed import SINGLE
from gpnn.report import Record, write_comparison, write_report
from gpnn.report.html import headline_metrics
from gpnn.report.numbers import numbers, view_of
from gpnn.report.predictions import calibration, classes
from gpnn.report.states import hover_texts
from tests.oracle.number_graph import number_graph
from tests.report.conftest import make_run, record_of
from tests.report.test_html import charts_of

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def number_record(tmp_path_factory) -> Record:
    folder = tmp_path_factory.mktemp("numbers")
    torch.save(number_graph(90), folder / "graph.pt")
    return record_of(make_run(folder / "run", [f"data.name={folder / 'graph.pt'}"]))


def test_a_regression_shows_numbers_and_no_classes(number_record, tmp_path):
    assert classes(number_record) is calibration(number_record) is None
    section = numbers(number_record)
    assert [part.name for part in section.parts] == ["numbers", "errors"]
    assert list(section.parts[0].views) == ["test", "validation"]
    truth = section.parts[0].views["test"][1]["x"]
    assert len(truth) == int(number_graph(90).test_mask.sum())
    cards = dict(headline_metrics(number_record))
    assert cards["test R²"] == f"{number_record.metrics['test_r2']:.3f}"
    write_report(number_record, tmp_path / "report.html")
    assert "Predicted and true" in (tmp_path / "report.html").read_text()


def test_regressions_are_compared_by_what_selected(tmp_path):
    torch.save(number_graph(90), tmp_path / "graph.pt")
    words = [f"data.name={tmp_path / 'graph.pt'}", "train.metric=mae"]
    runs = [make_run(tmp_path / name, [*words, f"seed={seed}"]) for seed, name in enumerate(("one", "other"))]
    write_comparison([run.path for run in runs], tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text()
    errors = [run.read_metrics()["val_mae"] for run in runs]
    best = ("one", "other")[errors[1] < errors[0]]
    assert f"best validation MAE: {best}" in page
    assert f"{min(errors):.4g}" in page
    assert "test_mae" not in page  # in words
    assert charts_of(page)["bars"]["views"]["test MAE"][0]["x"] == [run.read_metrics()["test_mae"] for run in runs]


def test_a_node_tells_its_number_and_its_interval(number_record):
    facts = number_record.small.facts
    unknown = replace(facts, numbers=torch.full_like(facts.numbers, torch.nan))
    assert "number unknown" in hover_texts(unknown)[0]
    text = hover_texts(facts)[0]
    assert "prediction " in text
    assert " to " in text
    assert "number " in text


def test_ranges_hold_as_many_known_numbers_each():
    data = Data(y=torch.cat([torch.arange(10.0) + 0.5, torch.tensor([float("nan")])]), num_nodes=11)
    view = view_of(data, torch.arange(11.0)[:, None].repeat(1, 3), SINGLE)
    assert view.names == ["under 2.3", "2.3 to 4.1", "4.1 to 5.9", "5.9 to 7.7", "from 7.7"]
    assert torch.bincount(view.y[:10]).tolist() == [2, 2, 2, 2, 2]
    assert view.y[10] == -1
    assert view.probabilities.argmax(1).tolist() == [0, 0, 0, 1, 1, 2, 3, 3, 4, 4, 4]
