import json
from pathlib import Path

import pytest

from gpnn.text import percent


@pytest.fixture
def run(gpnn, tiny) -> str:
    assert gpnn("train", *tiny, "--out", "run", "--quiet", "--no-report").exit_code == 0
    return "run"


def test_what_carried_a_prediction(gpnn, run):
    result = gpnn("explain", run, "5", "--num", "2", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["node"] == 5
    assert all(len(found[name]) <= 2 for name in ("edges", "neighbours", "columns"))
    effects = [effect for *_, effect in found["edges"]]
    assert effects == sorted(effects, reverse=True)
    assert effects[0] > 0
    shown = gpnn("explain", run, "5", "--num", "2").stdout
    source, target, effect = found["edges"][0]
    assert f"{source} → {target}" in shown
    assert percent(effect) in shown
    assert f"5: {found['prediction']}, probability {percent(found['probability'])}" in shown


def test_mistakes_are_one_sentence(gpnn, run):
    result = gpnn("explain", run, "nobody")
    assert result.exit_code == 2
    assert "`node` must be the id of a node of the graph. Got 'nobody'." in result.stderr
    assert gpnn("explain", run, "5", "--num", "0").exit_code == 2
    assert gpnn("explain", "nowhere", "5").exit_code == 2


def test_a_page_with_a_picture(gpnn, run):
    result = gpnn("explain", run, "5", "--num", "2", "--out", "why.html", "--json")
    assert result.exit_code == 0, result.output
    page = Path("why.html").read_text(encoding="utf-8")
    source, target, effect = json.loads(result.stdout)["edges"][0]
    assert f"{source} → {target}: {percent(effect)}</title>" in page
    refused = gpnn("explain", run, "5", "--out", "why.txt")
    assert refused.exit_code == 2
    assert "`--out` must end in .html. Got 'why.txt'." in refused.stderr
