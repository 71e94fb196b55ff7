import base64
import gzip
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.check import install_command
from gpnn.report import SECTIONS, write_report
from gpnn.report.html import can_write, check_extra, plotly_script, script_json
from gpnn.report.record import Chart
from gpnn.train.notes import Note
from tests.oracle.multi_hot import multi_hot_graph
from tests.report.conftest import HOSTILE, record_of

pytest.importorskip("plotly")

VOID = {"meta", "img", "input", "br", "link", "hr"}


class Outline(HTMLParser):
    """Elements and ids of a page; elements must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def charts_of(text: str) -> dict:
    return json.loads(re.search(r'id="charts">(.*?)</script>', text, re.S)[1])


@pytest.fixture(scope="module")
def page(record, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    noted = [Note("<i>7</i> edges have no reverse", "data.undirected=true adds it"), Note("split drawn")]
    write_report(replace(record, notes=noted), path)
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]
    return path.read_text()


def test_every_section_is_there_and_reachable(page):
    outline = Outline(page)
    assert not outline.open
    assert len(outline.ids) == len(set(outline.ids))
    for name in SECTIONS:
        if name in ("traffic", "numbers", "race"):  # of several processes, of a regression, of a recipe left open
            continue
        assert name in outline.ids
        assert f'href="#{name}"' in page


def test_tables_of_text_are_told_from_figures(page):
    """Their cells wrap: the machine's values were cut off."""
    assert page.count('<table class="text">') == 10  # warnings, nodes, six explanations, machine, packages


def test_notes_stand_beside_what_mends_them(page):
    text = Outline(page).text
    assert "<i>7</i> edges have no reverse" in text
    assert "data.undirected=true adds it" in text


def test_a_run_without_notes_has_no_section_of_them(record):
    assert SECTIONS["notes"](replace(record, notes=[])) is None


def test_it_asks_nothing_of_the_network(page):
    shell = re.sub(r'<script type="text/plain".*?</script>', "", page, flags=re.S)
    assert not re.search(r"""(src|href)=["'](?!#)""", shell)
    assert "default-src 'none'" in shell
    assert not re.search(r"@import|url\(", shell)
    assert shell.count("<script nonce=") == 1


def test_every_chart_is_one_that_plotly_takes(record):
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for section in (make(record) for make in SECTIONS.values()):
        for chart in section.parts if section else ():
            if isinstance(chart, Chart):
                for traces in chart.views.values():
                    plain = [
                        {key: value for key, value in trace.items() if key not in ("members", "ends")}
                        | ({"colorscale": "Blues"} if trace.get("colorscale") == "theme" else {})
                        for trace in [*chart.ground, *traces]
                    ]
                    for trace in plain:
                        if trace.get("marker", {}).get("line"):
                            trace["marker"] = trace["marker"] | {"line": {"width": 1}}
                    graph_objects.Figure(plain, chart.layout)
                assert chart.alt


def test_hostile_names_are_text(hostile_run, tmp_path):
    record = record_of(hostile_run)
    assert set(record.classes) == set(HOSTILE)
    write_report(record, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    outline = Outline(page)
    assert "img" not in outline.tags
    assert "i" not in outline.tags
    assert outline.tags.count("script") == 3
    assert not outline.handlers
    assert "a<b>&'graph" in outline.text
    assert "49" not in charts_of(page)["accuracy"]["layout"]["yaxis"]["ticktext"][2]  # no template was run
    for text in json.dumps(charts_of(page)).split('"'):
        assert not re.search(r"<(script|img|i\b)", text)


@pytest.mark.parametrize(
    "change", ["no partition", "no states", "no history", "several labels", "unlabelled", "not finite"]
)
def test_a_run_that_lacks_something_has_a_report(inputs, tmp_path, change):
    changes = {
        "no partition": {"partition": None},
        "no states": {"states": None},
        "no history": {"run": {**inputs.run, "history": []}},
        "several labels": {"data": multi_hot_graph(90), "predictions": torch.rand(90, 4), "partition": None},
        "unlabelled": {"data": inputs.data.clone()},
        "not finite": {"run": {**inputs.run, "history": [{"epoch": 1, "loss": None}]}},
    }[change]
    if change == "unlabelled":
        changes["data"].y = torch.full_like(inputs.data.y, -1)
    elif change == "not finite":
        changes["predictions"] = changes["states"] = torch.full_like(inputs.predictions, torch.nan)
    write_report(inputs.gather(**changes), tmp_path / "report.html")
    assert not Outline((tmp_path / "report.html").read_text()).open


def test_without_the_extra_nothing_is_written(record, tmp_path, monkeypatch):
    monkeypatch.setattr("gpnn.report.html.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="A report needs plotly and jinja2"):
        write_report(record, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_no_text_can_leave_its_script(text):
    written = script_json({"label": text})
    assert not set(written) & set("<>&")
    assert json.loads(written) == {"label": text}


def test_numbers_that_json_lacks_are_null():
    assert script_json([float("nan"), float("inf"), 1.5]) == "[null,null,1.5]"


def test_the_library_is_whole():
    pytest.importorskip("plotly")
    code = gzip.decompress(base64.b64decode(plotly_script())).decode()
    assert code.startswith("/**\n* plotly.js")
    assert "MIT" in code[:300]


def test_without_the_extra_there_is_a_way_out(monkeypatch):
    monkeypatch.setattr("gpnn.report.html.find_spec", lambda name: None if name == "plotly" else sys)
    assert not can_write()
    with pytest.raises(ImportError, match=re.escape(install_command("report"))):
        check_extra()
