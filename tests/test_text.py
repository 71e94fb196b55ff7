import re
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

import gpnn
from gpnn import GPNNClassifier, text
from gpnn.progress import Progress
from gpnn.text import percent, printable, size, value_text
from gpnn.train.notes import NoteWarning


def test_percent():
    assert (percent(0.8154), percent(None)) == ("81.5 %", "–")


def test_size():
    assert (size(12), size(2048), size(5 << 30)) == ("12 B", "2.0 KiB", "5.0 GiB")


def test_control_characters_are_written_out():
    assert printable("Köln \x1b[2J\x9b1m\tα\n") == "Köln \\x1b[2J\\x9b1m\\tα\n"
    assert value_text("\x1b]0;title\x07") == "\\x1b]0;title\\x07"


pytestmark = pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")


@pytest.fixture
def cell(monkeypatch) -> list[str]:
    """A stand-in for a kernel; what was shown, one after the other."""
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda html: shown.append(html))
    display = SimpleNamespace(HTML=str, display=lambda html, display_id: handle)
    kernel = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel, display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(text, "SECONDS", 0.0)
    return shown


@pytest.fixture(scope="module")
def data():
    return gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)


def test_a_fit_shows_its_epochs_and_leaves_nothing(cell, data, capsys):
    GPNNClassifier(epochs=3, hidden_channels=8).fit(data)
    bars = [each for each in cell if "epoch" in each]
    assert [re.search(r'value="(\d)" max="3"', each)[1] for each in bars] == ["1", "2", "3"]
    assert all("loss" in each for each in bars)
    assert cell[-1] == ""
    assert capsys.readouterr().out == capsys.readouterr().err == ""


def test_without_a_notebook_a_fit_is_silent(data, capsys):
    assert not text.in_notebook()
    GPNNClassifier(epochs=1, hidden_channels=8).fit(data)
    assert capsys.readouterr().err == ""


def test_a_stage_without_a_count(cell):
    with Progress("reading <the> graph"):
        pass
    assert cell == ["reading &lt;the&gt; graph <progress></progress> ", ""]


def test_results_are_tables_and_pictures(data):
    fitted = GPNNClassifier(epochs=3, hidden_channels=8, k=3).fit(data)
    shown = fitted._repr_mimebundle_()["text/html"]
    assert "<td>accuracy</td>" in shown
    assert shown.count("<polyline") >= 2
    assert "history" not in clean(GPNNClassifier())
    sizes = fitted.partition_._repr_html_()
    assert sizes.count("<rect") == fitted.partition_.num_parts
    why = fitted.explain(data, 5, num=2)
    rows, _, drawn = why._repr_html_().partition("</table>")
    assert rows.count("<tr>") == 1 + len(why.shown())
    schedule = gpnn.schedule.synchronous(data, rounds=1)
    for picture in (schedule._repr_html_(), sizes.partition("<br>")[2], drawn):
        ElementTree.fromstring(picture)
    large = gpnn.schedule.synchronous(gpnn.Graph([0], [1], num_nodes=1000), rounds=1)
    assert large._repr_html_() == repr(large)


def clean(estimator: GPNNClassifier) -> str:
    return estimator._repr_mimebundle_()["text/html"].partition("<polyline")[2]


def test_names_are_escaped():
    assert "<script>" not in text.table_html(["<script>"], [["<script>"]], "<script>")
    assert "<script>" not in text.curves_html({"<script>": [(1, 1.0)]}, "<script>")


@pytest.mark.thorough
def test_in_a_kernel_of_jupyter():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    code = (
        "import gpnn\n"
        "data = gpnn.load_dataset('planted', num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)\n"
        "gpnn.GPNNClassifier(epochs=3, hidden_channels=8).fit(data)"
    )
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(page, timeout=3000, startup_timeout=1200, kernel_name="python3").execute()
    outputs = page.cells[0].outputs
    assert "display_data" in [each.output_type for each in outputs]  # the bar, empty again
    result = next(each for each in outputs if each.output_type == "execute_result")
    assert "<polyline" in result.data["text/html"]
