"""Every Python block of every page runs, in the order in which a reader meets them.

Blocks marked `python` run; `py` is for code that cannot (another library's, or a sketch) and must at least be Python.
DGL's run where DGL is installed.
"""

import ast
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["../README.md", *sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(python|py)\n(.*?)^```$", re.M | re.S)
DOWNLOADED = re.compile(r'"(cora|citeseer|pubmed|nell|diel|babi)"')
MARKS = {
    "baselines.md": [pytest.mark.slow],
    "../README.md": [pytest.mark.thorough],  # which lets recipes race
    "scikit-learn.md": [pytest.mark.thorough],  # searches
}


def blocks(page: str, kind: str) -> list[tuple[int, str]]:
    """The line and the code of each block of a page."""
    text = (DOCS / page).read_text()
    return [(text.count("\n", 0, m.start()) + 2, m[2]) for m in FENCE.finditer(text) if m[1] == kind]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=MARKS.get(page, [])) for page in PAGES if blocks(page, "python")],
)
@pytest.mark.thorough
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, request):
    code = blocks(page, "python")
    if page == "neighbours.md" and find_spec("dgl"):
        monkeypatch.setenv("DGLBACKEND", "pytorch")
        code = sorted(code + blocks(page, "py"))
    if any(DOWNLOADED.search(text) for _, text in code):
        request.getfixturevalue("data_root")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__page__"}
    monkeypatch.setitem(sys.modules, "__page__", type(sys)("__page__"))
    for line, text in code:
        source = "\n" * (line - 1) + text  # errors name the page's own lines
        exec(compile(source, str(DOCS / page), "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "py")])
def test_code_that_does_not_run_is_python(page):
    for line, text in blocks(page, "py"):
        ast.parse(text, f"{page}, line {line}")
