"""`gpnn predict RUN --update NEW` equals predicting the whole new graph."""

import json
from pathlib import Path

import pytest
from pyarrow import csv

SETTINGS = ["train.epochs=12", "train.patience=0", "model.hidden_channels=8", "partition.k=3", "schedule.rounds=2"]
ENDS = [(a, (a + step) % 200) for a in range(200) for step in (1, 2)]


def write(folder: Path, **tables: list[tuple]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        (folder / f"{name}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return folder


def person(number: int, age: float, label: str | None = None) -> tuple:
    label = ("red", "blue")[number // 100] if label is None and number % 3 else label or ""
    return (f"p{number}", label, age, ("Oslo", "Rome")[number % 2])


HEAD, PAIR = ("id", "label", "age", "city"), ("source", "target")
BEFORE = [person(number, number / 10) for number in range(200)]
NEW = [("q1", "red", 3.5, "Rome"), ("q2", "", 1, "Lima"), person(7, -9)]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    edges = [(f"p{a}", f"p{b}") for a, b in ENDS]
    write(tmp_path / "new", nodes=[HEAD, *NEW], edges=[PAIR, ("q1", "p3"), ("p4", "q2"), ("q2", "q1")])
    write(tmp_path / "new", removed_nodes=[("id",), ("p20",)], removed_edges=[PAIR, ("p40", "p41")])
    nodes = {row[0]: row for row in [*BEFORE, *NEW] if row[0] != "p20"}
    kept = [edge for edge in edges if "p20" not in edge and edge != ("p40", "p41")]
    after = [PAIR, *kept, ("q1", "p3"), ("p4", "q2"), ("q2", "q1")]
    write(tmp_path / "after", nodes=[HEAD, *nodes.values()], edges=after)
    return write(tmp_path / "old", nodes=[HEAD, *BEFORE], edges=[PAIR, *edges])


@pytest.mark.parametrize(
    "settings",
    [
        ["data.undirected=true", "recipe=spread"],
        pytest.param(["recipe=gated", "schedule.rounds=1"], marks=pytest.mark.thorough),
        pytest.param(["model.cell=gru", "schedule.name=held_cut"], marks=pytest.mark.thorough),
        pytest.param(["recipe=columns"], marks=pytest.mark.thorough),
        pytest.param(["schedule.name=waves"], marks=pytest.mark.thorough),
        pytest.param(["model.input=embedding"], marks=pytest.mark.thorough),
    ],
)
def test_an_update_equals_the_whole_prediction(gpnn, old, settings):
    own = [] if "recipe=columns" in settings else [each for each in SETTINGS if each.split("=")[0] not in str(settings)]
    assert gpnn("train", "old", *own, *settings, "--out", "run", "-q", "--no-report").exit_code == 0
    shown = gpnn("predict", "run", "--update", "new", "--out", "update.csv", "--json")
    assert shown.exit_code == 0, shown.output
    assert gpnn("predict", "run", "after", "--out", "whole.csv", "-q").exit_code == 0
    found, wanted = (csv.read_csv(name) for name in ("update.csv", "whole.csv"))
    assert found.column_names == wanted.column_names
    found, wanted = (each.sort_by("node").to_pylist() for each in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        assert {name: value for name, value in one.items() if not isinstance(value, float)} == pytest.approx(
            {name: value for name, value in other.items() if not isinstance(value, float)}
        )
        assert [one["p_blue"], one["p_red"]] == pytest.approx([other["p_blue"], other["p_red"]], abs=1e-6)
    facts = json.loads(shown.stdout)
    assert (facts["num_nodes"], facts["num_new"]) == (201, 2)
    local = settings[0] in ("data.undirected=true", "recipe=gated", "model.cell=gru")
    assert (facts["whole"] == "") == local
    assert (facts["num_computed"] < 201) == local


def test_the_command_says_what_it_computed(gpnn, old):
    assert gpnn("train", "old", *SETTINGS, "--out", "run", "-q", "--no-report").exit_code == 0
    result = gpnn("predict", "run", "--update", "new", "--only-new", "--out", "update.csv")
    assert "2 predictions in update.csv; 2 of 201 nodes are new to the run; " in result.stderr
    assert "were computed again" in result.stderr
    assert "1 unseen categories ('Lima') count as unknown" in result.stderr


def test_mistakes(gpnn, old, tmp_path):
    assert gpnn("train", "old", *SETTINGS, "--out", "run", "-q", "--no-report").exit_code == 0
    (tmp_path / "empty").mkdir()
    write(tmp_path / "stranger", edges=[PAIR, ("p1", "nobody")])
    for words, sentence in (
        (["--update", "nowhere"], "`--update` must be a folder with tables of what changed. Got 'nowhere'."),
        (["--update", "empty"], "must hold one of the tables nodes, edges, features, removed_nodes, removed_edges"),
        (["--update", "stranger"], "`edges` must join nodes of the graph or of `nodes`. Got 'nobody'."),
        (
            ["old", "--update", "new"],
            "`--update` changes the run's own graph. Got another graph, or settings, besides.",
        ),
    ):
        result = gpnn("predict", "run", *words, "--out", "a.csv")
        assert (result.exit_code, sentence in " ".join(result.stderr.split())) == (2, True), result.stderr
    (tmp_path / "old" / "edges.csv").write_text("source,target\np0,p1\n")
    result = gpnn("predict", "run", "--update", "new", "--out", "a.csv")
    assert "old' has changed since" in result.stderr
    assert not (tmp_path / "a.csv").exists()
