"""The site: pages are in the navigation, links lead somewhere, pictures and the notebook can be made again."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
NAVIGATION = re.findall(r"([\w/-]+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text(), re.M)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
DRAWN = ("schedule-synchronous.svg", "schedule-partitioned.svg", "schedule-virtual.svg", "messages.svg")


def load(name: str):
    """A script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(path: Path) -> set[str]:
    """The anchors of a page: its headings, and the objects it documents."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)$", text, re.M))


def test_every_page_is_in_the_navigation_and_the_other_way_round():
    assert len(NAVIGATION) == len(set(NAVIGATION))
    assert set(PAGES) | {"tutorial.ipynb"} == set(NAVIGATION)


@pytest.mark.parametrize("page", [*PAGES, "../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md"])
def test_links_lead_somewhere(page):
    path = DOCS / page
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    for target in LINK.findall(text):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        found = path if not name else (path.parent / name)
        assert found.exists(), f"{page} links to {target}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{page} links to {target}"


def test_every_object_of_the_reference_exists():
    for page in (DOCS / "reference").glob("*.md"):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M):
            module, _, symbol = name.rpartition(".")
            assert hasattr(importlib.import_module(module), symbol), name


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_can_be_drawn_again(name, tmp_path):
    pictures = load("pictures")
    assert set(pictures.PICTURES) <= {path.name for path in (DOCS / "images").iterdir()}
    pictures.PICTURES[name](tmp_path / name)
    drawn = (tmp_path / name).read_text()
    assert drawn.count("<path") == (DOCS / "images" / name).read_text().count("<path")


def test_doctests_are_fenced():
    pytest.importorskip("griffe")
    fence = load("doctests").fence
    assert fence("Say.\n\n>>> 1 + 1\n2\n\nMore.") == "Say.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
    assert fence(">>> 1\n1").endswith("1\n```")
    assert fence("nothing") == "nothing"


@pytest.mark.thorough
def test_the_tutorial_runs(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(DOCS / "tutorial.ipynb", as_version=4)
    nbformat.validate(notebook)
    before = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert not re.search(r"/(work|root|home|tmp)/", before)
    kernel = subprocess.run(
        [sys.executable, "-m", "ipykernel", "install", "--prefix", str(tmp_path), "--name", "tutorial"],
        capture_output=True,
        check=False,
    )
    assert kernel.returncode == 0, kernel.stderr
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(
        notebook, timeout=1200, startup_timeout=1200, kernel_name="tutorial", resources=resources
    ).execute()
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert float(re.search(r"validation ([\d.]+)%", said)[1]) > 85
    assert "largest difference" in said


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "experiments" / "results" / "ours" / "index.html").exists()
