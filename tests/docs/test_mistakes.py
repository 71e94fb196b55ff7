"""Every row of docs/mistakes.md: the mistake is made, and the person gets what the page says."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from docs.mistakes import EDGES, NODES, PAGE, SECTIONS, Mistake, page
from gpnn.cli import app

ROWS = [mistake for rows in SECTIONS.values() for mistake in rows]
RUN = "train friends --out run recipe=gated train.epochs=2 model.hidden_channels=4 --quiet"


def write_friends(folder: Path, files: Any = ()) -> None:
    (folder / "friends").mkdir(parents=True)
    for name, content in {"nodes.csv": NODES, "edges.csv": EDGES, **dict(files)}.items():
        if content is not None:
            content = content if isinstance(content, bytes) else content.encode()
            path = (folder / "friends" / name).resolve()
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the usual friends."""
    folder = tmp_path_factory.mktemp("usual")
    write_friends(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert CliRunner().invoke(app, RUN.split()).exit_code == 0
    return folder / "run"


def marked(mistake: Mistake) -> Any:
    return pytest.param(mistake, id=mistake.about, marks=[pytest.mark.thorough] if mistake.run else [])


@pytest.mark.parametrize("mistake", list(map(marked, ROWS)))
def test_what_a_person_gets(mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request):
    write_friends(tmp_path, mistake.files)
    if mistake.run:
        shutil.copytree(request.getfixturevalue("run"), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    if mistake.call.startswith("import"):
        with pytest.raises(ValueError, match=f"^{re.escape(mistake.gets)}$"):
            exec(mistake.call, {})
        return
    words = shlex.split(mistake.call)[1:]
    describes = words[:2] == ["data", "describe"]
    result = CliRunner().invoke(app, [*words, "--json"] if describes and mistake.is_read else words)
    printed = " ".join(result.stderr.split()).replace(f"{tmp_path}/", "")
    assert result.exit_code == (0 if mistake.is_read else 2), printed
    if not mistake.is_read:
        assert mistake.gets in printed
        assert sorted(tmp_path.rglob("*")) == before
    elif describes:
        facts = json.loads(result.stdout)
        assert {name: facts[name] for name in mistake.reads} == dict(mistake.reads)
        assert not mistake.gets or mistake.gets in facts["notes"]
    else:
        assert f"note: {mistake.gets}" in printed


def test_the_page_has_the_rows():
    assert PAGE.read_text() == page(), "python -m docs.mistakes writes it anew"
    assert len(ROWS) >= 60
    assert len({mistake.about for mistake in ROWS}) == len(ROWS)
    assert all(mistake.gets or mistake.reads for mistake in ROWS)
