"""Each picture of fabricated results: what has to be in it is in it, and it is small."""

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.harness import Experiment, Results
from experiments.harness.entry import find_entries
from experiments.harness.pictures import PICTURES
from experiments.harness.pictures.dags import sweeps
from experiments.harness.spec import Line
from gpnn.graph import Graph
from gpnn.schedule import sequential

SMALL = 300_000  # bytes
ROWS = (Line("synchronous, T = 1", paper={"1": 55.0}), Line("synchronous, T = 2", {"seed": 1}), Line("K = 3, T_S = 1"))
TABLE = Experiment("some", "Some", ROWS, (Line("1"), Line("2", {"device": "cpu"})), seeds=2, also=("num_messages",))


def draw(name: str, folder: Path, experiment: Experiment, metrics: dict) -> list[Path]:
    pytest.importorskip("matplotlib")
    results = Results.open(folder / "cells.jsonl")
    for number, cell in enumerate(experiment.cells()):
        results.add(cell, {"test_accuracy": 0.5 + 0.01 * number, "num_messages": 10 * (number + 1), **metrics})
    pictures = PICTURES[name](experiment, find_entries(experiment, results), results, folder)
    assert all(path.stat().st_size < SMALL for _, path in pictures)
    return [path for _, path in pictures]


@pytest.mark.parametrize("name", ["bars", "curves", "tradeoff"])
def test_a_picture_is_the_same_for_the_same_results(name, tmp_path):
    (one,) = draw(name, tmp_path, TABLE, {})
    first = one.read_bytes()
    (again,) = draw(name, tmp_path, TABLE, {})
    assert first.startswith(b"<?xml")
    assert again.read_bytes() == first


def test_rows_keep_their_order_where_the_first_column_lacks_one(tmp_path):
    rows = (Line("beta", only=("2",)), Line("alpha"))
    (path,) = draw("bars", tmp_path, replace(TABLE, rows=rows), {})
    text = path.read_text(encoding="utf-8")
    assert text.index("beta") < text.index("alpha")


def test_messages_are_written_in_full(tmp_path):
    (path,) = draw("tradeoff", tmp_path, TABLE, {})
    text = path.read_text(encoding="utf-8")
    assert "mathdefault" not in text
    assert "<!-- 70 -->" in text


def test_a_missing_entry_leaves_a_gap(tmp_path):
    empty = Results.open(tmp_path / "none.jsonl")
    for name in ("bars", "curves", "tradeoff", "planes"):
        (picture,) = PICTURES[name](TABLE, find_entries(TABLE, empty), empty, tmp_path)
        assert picture[1].exists()


def test_planes_of_thousands_of_points_are_small(tmp_path):
    points = list(range(3000))
    plane = {"plane_x": points, "plane_y": points[::-1], "plane_class": [at % 7 for at in points], "silhouette": 0.1}
    (path,) = draw("planes", tmp_path, replace(TABLE, columns=TABLE.columns[:1]), plane)
    assert path.name == "some.svg"


def test_phases_are_drawn_a_row(tmp_path):
    chain = {"kind": "broadcast", "data": {"name": "chain", "num_nodes": 6, "label_rate": 0.5}}
    rows = (Line("one", {"schedule": {"name": "synchronous", "rounds": 1}}), Line("two", {"partition": {"k": 2}}))
    paths = draw("phases", tmp_path, Experiment("some", "S", rows, (Line("c"),), settings=chain, seeds=1), {})
    assert [path.name for path in paths] == ["some_1.svg", "some_2.svg"]
    assert "cut" in paths[1].read_text(encoding="utf-8")


def test_the_two_dags_of_a_star_are_outwards_and_inwards():
    star = Graph([0, 0, 0], [1, 2, 3], num_nodes=4).to_undirected()
    graph, out, back = sweeps(sequential(star, rounds=1)).rounds[0]
    assert graph.edges.numel() == 6
    assert star.src[out.edges].tolist() == [0, 0, 0]
    assert star.dst[back.edges].tolist() == [0, 0, 0]


def test_dags_are_drawn(tmp_path):
    grid = {"kind": "broadcast", "data": {"name": "grid", "rows": 2, "columns": 2, "label_rate": 0.5}}
    settings = {**grid, "schedule": {"name": "sequential", "rounds": 1}}
    (path,) = draw(
        "dags", tmp_path, Experiment("some", "S", (Line("r"),), (Line("c"),), settings=settings, seeds=1), {}
    )
    assert "second DAG" in path.read_text(encoding="utf-8")
