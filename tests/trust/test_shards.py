"""Shards that were changed are refused: by their digests, and signed anew by what they hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from typer.testing import CliRunner

from gpnn.build.shard_data import read_data
from gpnn.cli import app
from gpnn.distributed import SINGLE, read_index, read_shard
from gpnn.storage import tensors as blocks
from gpnn.storage.read import seal
from gpnn.storage.tensors import SHA256, XXH3, digest_blocks, tensor_places
from tests.oracle.processes import Processes
from tests.oracle.run_cases import begin_case, resume_case

GRAPH = ["planted", "data.num_nodes=120", "data.num_classes=3", "data.num_features=6", "data.label_rate=0.3"]
TRAIN = ["model.hidden_channels=4", "train.epochs=4", "train.patience=0", "train.checkpoint_every=1", "--no-report"]
FILE = "shard-00001-of-00002.safetensors"
Change = Callable[[dict[str, Tensor]], None]


def run(*words: str) -> tuple[int, str]:
    """Exit code and standard error of `gpnn WORDS`."""
    ended = CliRunner().invoke(app, list(words))
    return ended.exit_code, ended.stderr


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two shards, and a run that trained on them and was killed before its end."""
    root = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert run("partition", *GRAPH, "-k", "4", "--shards", "2", "--out", "shards", "-q") == (0, "")
        assert run("train", "shards", *TRAIN, "--out", "run", "-q")[0] == 0
    (root / "run" / "metrics.json").unlink()
    return root


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in a folder of its own, which is the current one."""
    shutil.copytree(prepared, tmp_path / "work")
    config = tmp_path / "work" / "run" / "config.toml"
    config.write_text(config.read_text().replace(str(prepared / "shards"), "shards"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def rewrite(shards: Path, change: Change) -> None:
    tensors = load_file(shards / FILE)
    change(tensors)
    save_file(tensors, shards / FILE)


def edit(shards: Path, change: Callable[[dict], None]) -> None:
    index = json.loads((shards / "shards.json").read_text())
    change(index)
    (shards / "shards.json").write_text(json.dumps(index))


def sign(shards: Path, algorithm: str = XXH3) -> None:
    """Give changed files the digests of what they hold now, as a forger would."""
    index = json.loads((shards / "shards.json").read_text())
    index.pop("sha256")
    index["digests"] = {name: digest_blocks(shards / name, algorithm) for name in index["digests"]}
    (shards / "shards.json").write_text(json.dumps(seal(index)))


def flip_two_bits(shards: Path) -> None:
    content = bytearray((shards / FILE).read_bytes())
    content[-40] ^= 1
    content[-80] ^= 16
    (shards / FILE).write_bytes(content)


def put(name: str, value: Callable[[Tensor], Tensor]) -> Change:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors[name] = value(tensors[name]).contiguous()

    return change


def set_at(place: int, value: int) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        changed = tensor.clone()
        changed[place] = value
        return changed

    return change


DAMAGE: dict[str, Callable[[Path], None]] = {
    "two flipped bits": flip_two_bits,
    "other labels": lambda shards: rewrite(shards, put("column/y", lambda y: (y + 1) % 3)),
    "ids out of range": lambda shards: rewrite(shards, put("nodes", set_at(0, 500))),
    "wrong halo rows": lambda shards: rewrite(shards, put("halo", lambda halo: halo.flip(0))),
    "a false num_edges": lambda shards: edit(shards, lambda index: index["totals"].update(num_edges=5)),
    "another facts": lambda shards: edit(shards, lambda index: index["facts"].update(num_classes=4)),
    "a shorter file": lambda shards: (shards / FILE).write_bytes((shards / FILE).read_bytes()[:-8]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_changed_shards_are_refused(folder: Path, damage: str) -> None:
    """At `--resume`, at `gpnn train` and from Python, in one sentence, with nothing written."""
    DAMAGE[damage](folder / "shards")
    before = {path: path.read_bytes() for path in (folder / "run").rglob("*") if path.is_file()}
    for command in (["train", "--resume", "run"], ["train", "shards", *TRAIN, "--out", "new"]):
        code, error = run(*command)
        assert code == 2, error
        assert error.startswith("gpnn: "), error
        assert "shards/shard" in error.split(" must be ")[0], error
        assert error.count("\n") == 1, error
    assert {path: path.read_bytes() for path in (folder / "run").rglob("*") if path.is_file()} == before
    with pytest.raises(ValueError, match=r"must be as it was written|must be a shard"):
        read_shard(read_index("shards"), 1, 2)


def read_own() -> None:
    """What the second of two processes reads, from Python."""
    index = read_index("shards")
    shard, columns = read_shard(index, 1, 2)
    read_data(index, columns, shard.num_own)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("nodes", set_at(0, 500)), "nodes must lie from 0 to 119"),
        (put("nodes", lambda nodes: nodes[:1].expand(len(nodes))), "nodes must be distinct"),
        (put("nodes", lambda nodes: nodes[1:]), "nodes must have shape"),
        (put("ptr", set_at(1, 10_000)), "ptr must rise"),
        (put("ptr", set_at(0, 1)), "ptr must begin at 0"),
        (put("ptr", lambda ptr: torch.cat([ptr[:-1], ptr[-1:] + 1])), "ptr must end at"),
        (put("src", set_at(0, 10_000)), "src must lie from 0"),
        (put("src", set_at(0, -1)), "src must lie from 0"),
        (put("edges", set_at(0, 10_000)), "edges must lie from 0"),
        (put("edges", lambda edges: edges[:-1]), "edges must have shape"),
        (put("halo", lambda halo: halo.flip(0)), "halo must rise"),
        (put("halo", set_at(0, -1)), "halo must lie from 0 to 119"),
        (put("halo", lambda halo: halo.clamp(min=0) + 60), "halo must"),
        (put("halo", lambda halo: torch.cat([halo, halo.new_full((1,), 119)])), "halo must"),
        (put("column/x.ptr", lambda ptr: ptr[1:]), "x must have a row per node"),
        (put("column/y", lambda y: y[1:]), "y must have a row per node"),
        (put("column/y", lambda y: y + 3), "`y` must hold classes below 3"),
        (put("column/y", lambda y: y - 5), "`y` must hold classes from 0"),
        (put("column/y", lambda y: y.bool()), "shards must agree on the type of their tensors"),
        (put("column/train_mask", lambda mask: mask.int()), "shards must agree on the type of their tensors"),
        (put("column/train_mask", lambda mask: torch.ones_like(mask)), "must not overlap"),
    ],
)
def test_shards_that_were_signed_anew_must_still_be_sound(folder: Path, change: Change, reason: str) -> None:
    rewrite(folder / "shards", change)
    sign(folder / "shards")
    code, error = run("train", "shards", *TRAIN, "--out", "new")
    assert code == 2, error
    assert "shards must hold sound shards." in error
    assert reason in error
    assert not (folder / "new" / "metrics.json").exists()
    with pytest.raises(ValueError, match="must hold sound shards"):
        read_own()


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"class_names": 5}, "`class_names` must be a list of names. Got int."),
        ({"class_names": ["a", "b"]}, "`class_names` must name the 3 classes. Got 2 names."),
        ({"class_names": [["a"], ["b"], ["c"]]}, "`class_names` must hold texts or numbers. Got ['a']."),
        ({"num_classes": 10**9}, "`num_classes` must be at most 10,000 for 120 nodes. Got 1,000,000,000."),
        ({"num_outputs": [3]}, "`num_outputs` in shards.json must be an integer of at least 1. Got [3]."),
        ({"notes": 5}, "`notes` in shards.json must be texts. Got 5."),
        ({"rows": {"a": 1}}, "shards.json must hold digests of edges and features. Got {'a': 1}."),
    ],
)
def test_facts_that_were_signed_anew_must_still_be_sound(folder: Path, facts: dict, reason: str) -> None:
    """A sentence, and no run."""
    edit(folder / "shards", lambda index: index["facts"].update(facts))
    sign(folder / "shards")
    code, error = run("train", "shards", *TRAIN, "--out", "new")
    assert code == 2, error
    assert reason in error
    assert not (folder / "new").exists()


def test_labels_of_another_type_and_masks_without_nodes(folder: Path) -> None:
    """Bytes are classes, too; nothing to learn from is one sentence, and no run."""
    for file in (FILE, FILE.replace("00001", "00000", 1)):
        tensors = load_file(folder / "shards" / file)
        tensors["column/y"] = tensors["column/y"].to(torch.uint8)
        save_file(tensors, folder / "shards" / file)
    sign(folder / "shards")
    assert run("train", "shards", *TRAIN, "--out", "new")[0] == 0
    for file in (FILE, FILE.replace("00001", "00000", 1)):
        tensors = load_file(folder / "shards" / file)
        tensors["column/train_mask"] &= False
        save_file(tensors, folder / "shards" / file)
    sign(folder / "shards")
    code, error = run("train", "shards", *TRAIN, "--out", "none")
    assert (code, error) == (2, "gpnn: `train_mask` must hold at least one labelled node. Got none.\n")
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda index: index["totals"].update(num_edges=5), "the subgraphs must have 5 edges, num_edges"),
        (lambda index: index["totals"].update(num_parts=3), "there must be 3 subgraphs"),
        (lambda index: index["part_ptr"].__setitem__(1, 10_000), "must follow each other"),
        (lambda index: index["bounds"].__setitem__(1, index["bounds"][1] - 1), "made up of whole subgraphs"),
        (lambda index: index["digests"].popitem(), "must have the digests of its blocks"),
    ],
)
def test_an_index_that_was_signed_anew_must_still_be_sound(
    folder: Path, change: Callable[[dict], None], reason: str
) -> None:
    edit(folder / "shards", change)
    sign(folder / "shards")
    with pytest.raises(ValueError, match=reason):
        read_index("shards")


def test_edges_of_subgraphs_are_counted(folder: Path) -> None:
    """A false num_edges that the index's other numbers were made to fit."""

    def change(index: dict) -> None:
        index["part_edges"][0] += 1
        index["totals"]["num_edges"] += 1

    edit(folder / "shards", change)
    sign(folder / "shards")
    with pytest.raises(ValueError, match=r"every subgraph must have as many edges as shards\.json says"):
        read_shard(read_index("shards"), 0, 2)


def test_a_run_does_not_go_on_with_shards_that_were_signed_anew(folder: Path) -> None:
    rewrite(folder / "shards", put("column/y", lambda y: (y + 1) % 3))
    sign(folder / "shards")
    code, error = run("train", "--resume", "run")
    assert code == 2
    assert error == "gpnn: A run must keep the data that it began with. 'shards' has changed since; train anew.\n"


def test_only_blocks_that_are_read_are_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four processes read two files: a change in rows of the last does not concern the others."""
    monkeypatch.setattr(blocks, "BLOCK", 64)
    sign(folder / "shards")
    index = read_index("shards")
    wanted = [read_shard(index, rank, 4)[0].nodes.tolist() for rank in range(4)]
    content = bytearray((folder / "shards" / FILE).read_bytes())
    content[tensor_places(folder / "shards" / FILE)["column/y"][1] - 80] ^= 1  # of one of the last labels
    (folder / "shards" / FILE).write_bytes(content)
    assert [read_shard(index, rank, 4)[0].nodes.tolist() for rank in range(3)] == wanted[:3]
    with pytest.raises(ValueError, match=rf"{FILE} must be as it was written\. The bytes from \d+ on"):
        read_shard(index, 3, 4)


def test_folders_of_older_versions_are_compared_by_sha256(folder: Path) -> None:
    sign(folder / "shards", SHA256)
    code, error = run("train", "shards", *TRAIN, "--out", "new")
    assert code == 0, error
    flip_two_bits(folder / "shards")
    assert "have another digest" in run("train", "shards", *TRAIN, "--out", "newer")[1]


def test_folders_of_the_oldest_version_are_read_with_a_note(folder: Path) -> None:
    """They tell no digests: what they hold is checked all the same."""

    def age(index: dict) -> None:
        index["format"] = 1
        del index["digests"], index["sha256"]

    edit(folder / "shards", age)
    code, error = run("train", "shards", *TRAIN, "--out", "new")
    assert code == 0
    assert "the shards were written by an older version, without digests" in " ".join(error.split())
    rewrite(folder / "shards", put("halo", lambda halo: halo.flip(0)))
    assert "halo must rise" in run("train", "shards", *TRAIN, "--out", "newer")[1]
    assert "has changed since; train anew." in run("train", "--resume", "run")[1]  # the run began with digests


@pytest.mark.thorough
def test_a_run_that_lost_its_shards_writes_them_again(processes: Processes, tmp_path: Path) -> None:
    """Be it continued by as many processes as began it, or by one."""
    path, settings = tmp_path / "run", [f"data.name={GRAPH[0]}", *GRAPH[1:], "partition.k=4", *TRAIN[:-1]]
    assert processes(begin_case, path, settings) == ["epochs"] * 4
    weights = (path / "model.safetensors").read_bytes()
    for size in (4, 1):
        (path / "metrics.json").unlink()
        file = next((path / "shards").glob("shard-00000-*"))
        content = bytearray(file.read_bytes())
        content[-40] ^= 1
        file.write_bytes(content)
        with pytest.raises((AssertionError, ValueError), match=f"run/shards/{file.name} must be as it was written"):
            processes(resume_case, path) if size > 1 else resume_case(SINGLE, path)
        shutil.rmtree(path / "shards")
        assert set(processes(resume_case, path) if size > 1 else [resume_case(SINGLE, path)]) == {"epochs"}
        assert (path / "model.safetensors").read_bytes() == weights
