"""SIGKILL in conversions, races, learned partitions and held cuts: the same again gives the same bits."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from gpnn.data.stored.stored_graph import check_stored, is_stored, open_stored
from tests.trust.consistent import check_run, check_same
from tests.trust.nursery import after, count_acts, kill_when, run, start
from tests.trust.test_kill import GRAPH

RUN = ["--quiet", "--no-report", "--out", "run"]
MODEL = ["model.hidden_channels=4", "partition.k=3", "train.epochs=12", "train.patience=0", "train.checkpoint_every=3"]
WORDS = {
    "convert": ["data", "convert", "edges.csv", "nodes.csv", "graph", "--quiet"],
    "race": ["train", *GRAPH, "recipe=auto", "train.epochs=8", "train.checkpoint_every=2", *RUN],
    "learned": ["train", *GRAPH, *MODEL, "partition.method=learned", *RUN],
    "held cut": ["train", *GRAPH, *MODEL, "schedule.name=held_cut", "model.cell=gru", "engine=streamed", *RUN],
}


def work(tmp_path: Path, name: object) -> Path:
    """A folder to work in, with two tables of a graph."""
    folder = tmp_path / str(name) / "work"
    folder.mkdir(parents=True)
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{n},{n * 7 % 400}\n" for n in range(400)))
    (folder / "nodes.csv").write_text("id,label,size\n" + "".join(f"{n},{'ab'[n % 2]},{n}.5\n" for n in range(400)))
    return folder


def check(folder: Path) -> None:
    """What stands there is whole as far as it has come."""
    check_run(folder / "run")
    if is_stored(folder / "graph"):
        assert set(check_stored(open_stored(folder / "graph")).values()) == {"ok"}


def finish(folder: Path, kind: str, whole: Path) -> None:
    """Do the same again, or let the run go on, and compare."""
    if kind != "convert":
        resume = ["train", "--quiet", "--no-report", "--resume", "run"]
        run(resume if (folder / "run").exists() else WORDS[kind], folder)
        check_run(folder / "run")
        check_same(whole / "run", folder / "run")
        return
    if not is_stored(folder / "graph"):
        run(WORDS[kind], folder)
    graphs = [
        {path.name: path.read_bytes() for path in (each / "graph").iterdir() if path.is_file()}
        for each in (whole, folder)
    ]
    assert graphs[0] == graphs[1]


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", WORDS)
def test_killed_in_an_act_on_a_file(tmp_path: Path, kind: str) -> None:
    """In two of them, drawn."""
    whole = work(tmp_path, "whole")
    acts = count_acts(WORDS[kind], whole)
    assert acts > 10
    for act in random.Random(3).sample(range(1, acts + 1), 2):
        folder = work(tmp_path, act)
        process = start(WORDS[kind], folder, die_at=act)
        process.join()
        assert process.exitcode == -9
        check(folder)
        finish(folder, kind, whole)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", WORDS)
def test_killed_at_twenty_random_instants(tmp_path: Path, kind: str) -> None:
    """Instants from the start of the process to past its end; what stands there is read all the while."""
    whole = work(tmp_path, "whole")
    run(WORDS[kind], whole)
    timed, began = work(tmp_path, "timed"), time.monotonic()
    run(WORDS[kind], timed)
    seconds, random_, kills = time.monotonic() - began, random.Random(0), 0
    for number in range(20):
        folder = work(tmp_path, number)
        moment = after(random_.uniform(0, 1.1 * seconds))
        process = start(WORDS[kind], folder)
        kills += kill_when(process, moment, lambda folder=folder: check(folder))  # type: ignore[misc]
        finish(folder, kind, whole)
    assert kills >= 10
