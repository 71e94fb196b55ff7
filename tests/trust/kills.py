"""SIGKILL at random instants in everything that gpnn does for longer than a moment: the same again gives the same bits.

    python -m tests.trust.kills --kills 20 --out benchmarks/results/kills.json convert race

kills each kind that many times and keeps the counts in that file and in a page beside it. Instants are drawn in seconds
of the processor, from the start of the process to a tenth past its end, so that they do not depend on other work; one
that comes after the end is counted apart, and another is drawn.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gpnn.data.stored import check_stored, is_stored, open_stored
from gpnn.storage.atomic import write_json, write_text
from tests.trust import fuzz_page
from tests.trust.consistent import check_run, check_same
from tests.trust.nursery import cpu_seconds, kill_when, run, start
from tests.trust.test_kill import GRAPH

RUN = ["--quiet", "--no-report", "--out", "run"]
MODEL = ["model.hidden_channels=4", "partition.k=3", "train.epochs=12", "train.patience=0", "train.checkpoint_every=3"]
WORDS = {
    "convert": ["data", "convert", "edges.csv", "nodes.csv", "graph", "--quiet"],
    "race": ["train", *GRAPH, "recipe=auto", "train.epochs=8", "train.checkpoint_every=2", *RUN],
    "learned": ["train", *GRAPH, *MODEL, "partition.method=learned", "partition.epochs=20", *RUN],
    "held cut": ["train", *GRAPH, *MODEL, "schedule.name=held_cut", "model.cell=gru", "engine=streamed", *RUN],
    "update": ["predict", "run", "--update", "change", "--out", "predictions.csv", "--quiet"],
    "explain": ["explain", "run", "7", "--json", "--out", "why.html"],
}
NONCE = re.compile(rb"nonce[-=\"\w]+")
TRAINED = ["train", ".", *MODEL, "schedule.rounds=2", *RUN]  # what updates and explanations are of
HEAD = """# Killed at random instants

    {command}

Machine: {machine}.
Other work kept the cores busy.

Each command is killed with SIGKILL at instants drawn from its start to a tenth past its end, in seconds of the
processor. Until then, and after, what stands in its folder is read again and again: it must be whole as far as it has
come. Then the command is given again, or the run resumed; the files, or what is printed, must be those of a command
that nobody disturbed, bit for bit. "Before the first file" are kills that left nothing to go on from; for instants
"after the end" others were drawn.

"""


def work(root: Path, name: object, trained: Path | None = None) -> Path:
    """A folder to work in: two tables of a graph, a change of it, and a run on it where one is given."""
    folder = root / str(name) / "work"
    (folder / "change").mkdir(parents=True)
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{n},{n * 7 % 400}\n" for n in range(400)))
    (folder / "nodes.csv").write_text("id,label,size\n" + "".join(f"{n},{'ab'[n % 2]},{n}.5\n" for n in range(400)))
    (folder / "change" / "nodes.csv").write_text("id,label,size\n900,a,1.5\n")
    (folder / "change" / "edges.csv").write_text("source,target\n900,3\n5,900\n")
    if trained is not None:
        shutil.copytree(trained / "run", folder / "run")
    return folder


def undisturbed(root: Path, kind: str) -> tuple[Path, Path | None]:
    """The folder of a command that nobody disturbed, and one with the run that it needs, or None."""
    trained = None
    if kind in ("update", "explain"):
        run(TRAINED, trained := work(root, "trained"))
    run(WORDS[kind], whole := work(root, "whole", trained))
    return whole, trained


def check(folder: Path, whole: Path) -> None:
    """What stands there is whole as far as it has come."""
    check_run(folder / "run")
    if is_stored(folder / "graph"):
        assert set(check_stored(open_stored(folder / "graph")).values()) == {"ok"}
    for name in ("predictions.csv", "why.html"):
        if (folder / name).exists():
            assert content(folder / name) == content(whole / name)


def finish(folder: Path, kind: str, whole: Path) -> None:
    """Give the same command again, or let the run go on, and compare."""
    if kind in ("race", "learned", "held cut"):
        resume = ["train", "--quiet", "--no-report", "--resume", "run"]
        run(resume if (folder / "run").exists() else WORDS[kind], folder)
        check_run(folder / "run")
        check_same(whole / "run", folder / "run")
        return
    if not is_stored(folder / "graph"):
        run(WORDS[kind], folder)
    assert contents(folder) == contents(whole)
    if kind == "explain":
        outputs = [json.loads((each.parent / "output.txt").read_text()) for each in (folder, whole)]
        assert outputs[0] == outputs[1]


def contents(folder: Path) -> dict[str, bytes]:
    """The files there."""
    return {str(path.relative_to(folder)): content(path) for path in folder.rglob("*") if path.is_file()}


def content(path: Path) -> bytes:
    """What a file holds, a page without the nonce of its scripts, which is drawn anew."""
    return NONCE.sub(b"", path.read_bytes()) if path.suffix == ".html" else path.read_bytes()


def kill_at_random(root: Path, kind: str, num: int, seed: int = 0) -> Counter[str]:
    """Kill a command so many times before its end; counts of where it stood.

    Raises:
        AssertionError: where it does not come right.
    """
    whole, trained = undisturbed(root, kind)
    seconds, process = 0.0, start(WORDS[kind], work(root, "timed", trained))
    while process.is_alive():
        seconds = max(seconds, cpu_seconds(process))
        time.sleep(0.005)
    drawn, counts = random.Random(seed), Counter[str]()
    before = len(contents(work(root, "before", trained)))
    while counts["kills"] < num:
        folder, instant = work(root, "killed", trained), drawn.uniform(0, 1.1 * seconds)
        process = start(WORDS[kind], folder)
        killed = kill_when(
            process,
            lambda process=process, instant=instant: cpu_seconds(process) >= instant,  # type: ignore[misc]
            lambda folder=folder: check(folder, whole),  # type: ignore[misc]
        )
        counts["kills" if killed else "after the end"] += 1
        counts["before the first file"] += killed and len(contents(folder)) == before
        finish(folder, kind, whole)
        shutil.rmtree(folder.parent)
    return counts


def page(noted: dict[str, Any]) -> str:
    """The page as Markdown."""
    names = ("kills", "before the first file", "after the end")
    rows = [(kind, *(counts.get(name, 0) for name in names), "yes") for kind, counts in noted["kinds"].items()]
    head = HEAD.format(command=noted["command"], machine=fuzz_page.machines(noted["kinds"]))
    return head + fuzz_page.table(("command", *names, "the same bits"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *WORDS], default=[])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--out", type=Path, help="file of counts, .json, with a page beside it")
    chosen = parser.parse_args()
    for kind in chosen.kinds or WORDS:
        with tempfile.TemporaryDirectory() as root:
            counts = kill_at_random(Path(root), kind, chosen.kills)
        print(kind, dict(counts), flush=True)
        if chosen.out is not None:
            noted = json.loads(chosen.out.read_text()) if chosen.out.exists() else {"kinds": {}}
            noted["command"] = f"python -m tests.trust.kills --kills {chosen.kills} --out FILE"
            found = noted["kinds"] | {kind: {**counts, "machine": fuzz_page.machine()}}
            noted["kinds"] = {each: found[each] for each in WORDS if each in found}
            write_json(chosen.out, noted)
            write_text(chosen.out.with_suffix(".md"), page(noted))


if __name__ == "__main__":
    main()
