"""Readers of configurations and of run folders: models, checkpoints of one process and of several, searches, pages."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch

import gpnn
from tests.trust.reader import Reader

SETTINGS = ["data.name=planted", "data.num_nodes=60", "data.num_classes=3", "data.num_features=8"]
SETTINGS += ["data.label_rate=0.4", "model.hidden_channels=4", "model.cell=gru", "train.epochs=2", "partition.k=3"]
SETTINGS += ["train.checkpoint_every=1", "schedule.rounds=2", "device=cpu"]


def _write_config(folder: Path) -> None:
    from gpnn.build import load_config

    config = load_config(overrides=[*SETTINGS, "schedule.intra=2", "train.clip=1.5"])
    (folder / "config.toml").write_text(config.to_toml())


def _read_config(folder: Path) -> Any:
    from gpnn.build import load_config

    return load_config(folder / "config.toml")


def _sound_config(config: Any) -> None:
    """What was read writes itself as a file that reads the same."""
    from gpnn.build import load_config

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(config.to_toml(), encoding="utf-8")
        assert load_config(Path(folder) / "config.toml") == config


@cache
def _built() -> Any:
    """The objects of the run, whose model and optimiser every case brings to another state."""
    from gpnn.build import build, load_config

    return build(load_config(overrides=SETTINGS))


def _write_run(folder: Path) -> None:
    from gpnn.build import build, create_run, load_config, train_run

    built = build(load_config(overrides=SETTINGS))
    train_run(create_run(built, folder / "run"), built, report=False)
    (folder / "run" / "predictions.csv").unlink()  # which nobody reads
    (folder / "run" / "checkpoint" / "previous.safetensors").unlink()  # which would stand in for a damaged one


def _read_run(folder: Path) -> Any:
    """All that `gpnn predict` reads of a run, and its metrics; config.toml has a reader of its own."""
    from gpnn.build import predict_trained, read_trained
    from gpnn.storage.read import read_json
    from gpnn.train import RunFolder

    run = RunFolder.open(folder / "run")
    read_json(run.environment)
    return run.read_history(), run.read_metrics(), predict_trained(read_trained(run), _built().config, _built().data)


def _write_blended(folder: Path) -> None:
    """A run whose predictions are those of two models, as a race leaves it."""
    from gpnn.train import RunFolder
    from gpnn.train.blend import Blend

    _write_run(folder)
    run = RunFolder.open(folder / "run")
    shutil.copytree(run.path, folder / "member")
    run.members.mkdir()
    (folder / "member").rename(run.members / "gated")
    weights, described = run.read_model()
    blend = Blend({"spread": 0.75, "gated": 0.25}).to_mapping() | {"task": described["task"]}
    run.write_model(weights, described | {"blend": blend})


def _sound_run(answer: Any) -> None:
    history, metrics, table = answer
    assert all(isinstance(record, dict) for record in history)
    assert isinstance(metrics, dict)
    assert table.num_rows == 60


def _write_explained(folder: Path) -> None:
    _write_run(folder)
    (folder / "run" / "node.txt").write_text("17")


def _read_explained(folder: Path) -> Any:
    """What `gpnn explain` reads of a run, and any text as the node; config.toml has a reader of its own."""
    from gpnn.build import explain_run
    from gpnn.explain import draw_explanation
    from gpnn.train import RunFolder

    node = (folder / "run" / "node.txt").read_text(encoding="utf-8", errors="surrogateescape")
    why = explain_run(RunFolder.open(folder / "run"), node, 2)
    return why, draw_explanation(why)


def _sound_explained(answer: Any) -> None:
    why, picture = answer
    assert 0 < why.probability <= 1
    assert picture.startswith("<svg")


def _write_updated(folder: Path) -> None:
    """A run on tables, and tables of what changed in them."""
    from gpnn.build import build, create_run, load_config, train_run

    tables, change = folder / "tables", folder / "change"
    tables.mkdir()
    change.mkdir()
    rows = [f"n{n},{'ab'[n % 2]},{n / 4},{'red' if n % 3 else ''}" for n in range(40)]
    (tables / "nodes.csv").write_text("id,label,size,colour\n" + "\n".join(rows) + "\n")
    edges = [f"n{n},n{(n * 7 + 2) % 40},{'xy'[n % 2]},{n / 8}" for n in range(40)]
    (tables / "edges.csv").write_text("source,target,type,weight\n" + "\n".join(edges) + "\n")
    built = build(load_config(overrides=[f"data.name={tables}", "data.undirected=true", *SETTINGS[5:]]))
    train_run(create_run(built, folder / "run"), built, report=False)
    (change / "nodes.csv").write_text("id,label,size,colour\nn3,,7.5,red\nfirst,a,1.25,\nsecond,,0.5,red\n")
    (change / "edges.csv").write_text("source,target,type,weight\nfirst,n8,x,1\nn2,second,y,0.5\nn5,n5,x,2\n")
    (change / "removed_nodes.csv").write_text("id\nn11\nn12\n")
    (change / "removed_edges.csv").write_text("source,target,type\nn4,n30,x\n")


def _read_updated(folder: Path) -> Any:
    """What `gpnn predict RUN --update CHANGE` answers."""
    from gpnn.build import load_run_config, read_trained, update_trained
    from gpnn.train import RunFolder

    run = RunFolder.open(folder / "run")
    return update_trained(read_trained(run), load_run_config(run), folder / "change").table


def _sound_updated(table: Any) -> None:
    """Each node has one row and a probability of each class."""
    assert len(set(table["node"].to_pylist())) == table.num_rows >= 1
    assert all(0 <= value <= 1 for value in table["confidence"].to_pylist())


def _read_checkpoint(folder: Path) -> Any:
    from gpnn.run.checkpoint import load_checkpoint
    from gpnn.train.optimizer import make_optimizer

    optimizer = make_optimizer(_built().model)
    path = folder / "run" / "checkpoint" / "training.safetensors"
    return _plain(load_checkpoint(path, _built().model, optimizer), _built().model, optimizer)


def _plain(progress: Any, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """What a checkpoint restores, to be compared."""
    state = {number: _lists(entries) for number, entries in optimizer.state_dict()["state"].items()}
    best = _lists(progress.best_weights)
    return {**asdict(progress), "best_weights": best, "weights": _lists(model.state_dict()), "state": state}


def _lists(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.as_tensor(tensor).tolist() for name, tensor in tensors.items()}


def _sound_checkpoint(answer: dict[str, Any]) -> None:
    assert answer["epoch"] >= 0
    assert set(answer["best_weights"]) in (set(), set(answer["weights"]))


@cache
def _sharded() -> tuple[Any, Any]:
    """The plan of one process that trains as one of several, and its model."""
    import torch.distributed as dist

    from gpnn.distributed import NodeOrder, Ownership, ProcessGroup
    from tests.oracle.training_cases import planted

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    data = planted(dtype=torch.float32)
    part = gpnn.partition_graph(data, 6, seed=3)
    owner = Ownership(NodeOrder.of(gpnn.Graph.from_data(data), part, 1), ProcessGroup())
    plan = gpnn.lower(data, gpnn.schedule.partitioned(data, part, rounds=2), shard=owner)
    rows = {"num_nodes": 60, "nodes": plan.nodes, "features": data.x}
    return plan, gpnn.nn.GPNN(6, 4, 3, input="both", num_rounds=2, **rows)


def write_sharded_checkpoint(folder: Path, epoch: int = 1) -> None:
    """Save what several processes save together, in the one process of a group."""
    from gpnn.distributed import checkpoint as sharded_checkpoint
    from gpnn.run.checkpoint import Progress, copy_weights
    from gpnn.train.optimizer import make_optimizer

    plan, model = _sharded()
    optimizer = make_optimizer(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    progress = Progress(epoch=epoch, history=[{"epoch": 1, "loss": 0.5}], best_weights=copy_weights(model))
    sharded_checkpoint.save(folder / "training.safetensors", model, optimizer, progress, plan)


def read_sharded_checkpoint(folder: Path) -> Any:
    """What the last checkpoint restores."""
    from gpnn.distributed import checkpoint as sharded_checkpoint
    from gpnn.train.optimizer import make_optimizer

    plan, model = _sharded()
    optimizer = make_optimizer(model)
    with torch.no_grad():
        return _plain(
            sharded_checkpoint.load(folder / "training.safetensors", model, optimizer, plan), model, optimizer
        )


def _write_forged(folder: Path) -> None:
    """The descriptions in a model, a checkpoint and a partition, to be damaged and then signed as if they were ours."""
    from gpnn.storage.tensors import read_tensors

    _write_run(folder)
    (folder / "described").mkdir()
    gpnn.Partition(torch.arange(40) % 5, 5).save(folder / "partition.safetensors")
    for name, path in _FORGED.items():
        (folder / "described" / f"{name}.json").write_text(json.dumps(read_tensors(folder / path, "")[1]))


_FORGED = {
    "model": "run/model.safetensors",
    "checkpoint": "run/checkpoint/training.safetensors",
    "partition": "partition.safetensors",
}


def _read_forged(folder: Path) -> Any:
    """What is read of files with a right digest over a wrong description."""
    import shutil

    from gpnn.storage.read import read_json
    from gpnn.storage.tensors import read_tensors, write_tensors

    with tempfile.TemporaryDirectory() as root:
        copied = Path(root) / "copy"
        shutil.copytree(folder, copied)
        for name, path in _FORGED.items():
            tensors, _ = read_tensors(folder / path, name)
            write_tensors(copied / path, tensors, read_json(folder / "described" / f"{name}.json"))
        part = gpnn.Partition.load(copied / "partition.safetensors")
        return _read_run(copied), _read_checkpoint(copied), part


def _sound_forged(answer: Any) -> None:
    _sound_run(answer[0])
    _sound_checkpoint(answer[1])
    assert answer[2].num_nodes == 40


def _write_search(folder: Path) -> None:
    from gpnn.build.search import Search

    search = Search(3, _built().config.to_toml(), ("model.cell",))
    noted = json.loads(search.to_json())
    for number, settings in zip(range(2), search.trials()):
        noted["trials"].append({"trial": number, "settings": settings, "value": 0.5, "val_loss": 1.25})
    (folder / "search.json").write_text(json.dumps(noted))


def _read_search(folder: Path) -> Any:
    from gpnn.build.search import best_trial, read_search

    search, noted = read_search(folder / "search.json")
    return search.config(best_trial(noted["trials"])["settings"] if noted["trials"] else {})


def _write_race(folder: Path) -> None:
    from gpnn.build import Race
    from gpnn.race import RaceRecord

    row = {"rung": 0, "name": "gated", "epochs": 3, "seconds": 0.5, "stopped": "rung", "value": 0.5, "val_loss": 1.25}
    costs = {"spread": 0.25, "gated": 0.5}
    record = RaceRecord(15.0, False, "accuracy", costs, {"spread": 8, "gated": 8}, (row,))
    race = Race(_built().config.to_toml(), ("model.cell",), record)
    (folder / "race.json").write_text(race.to_json())


def _read_race(folder: Path) -> Any:
    from gpnn.build.race import read_race
    from gpnn.race.record import rung_epochs

    race = read_race(folder / "race.json")
    if race.record is not None:
        rung_epochs(race.record, 0)
    return race.config("gated")


def _write_runs(folder: Path) -> None:
    _write_run(folder)
    (folder / "run" / "predictions.parquet").unlink()
    (folder / "run" / "model.safetensors").unlink()


def _read_runs(folder: Path) -> str:
    """The page that compares a run with itself, from its four small files."""
    from gpnn.report import write_comparison

    with tempfile.TemporaryDirectory() as root:
        write_comparison([folder / "run", folder / "run"], Path(root) / "page.html")
        return (Path(root) / "page.html").read_text(encoding="utf-8")


def _read_page(folder: Path) -> str:
    """The page of a run, from what its small files say and from objects of its training."""
    from gpnn.build.report import run_facts
    from gpnn.report import gather_record, write_report
    from gpnn.train import RunFolder

    built = _built()
    facts = run_facts(RunFolder.open(folder / "run"), built.config)
    record = gather_record(facts, built.data, built.plan, torch.full((60, 3), 1 / 3))
    assert record is not None
    with tempfile.TemporaryDirectory() as root:
        write_report(record, Path(root) / "page.html")
        return (Path(root) / "page.html").read_text(encoding="utf-8")


def _sound_page(page: str) -> None:
    assert page.rstrip().endswith("</html>")
    assert "<script>alert(1)" not in page


RUN_READERS: dict[str, Reader] = {
    "config": Reader(_write_config, _read_config, _sound_config),
    "run folder": Reader(_write_run, _read_run, _sound_run, "run/[!c]*.*"),  # all but config.toml and checkpoints
    "blended": Reader(_write_blended, _read_run, _sound_run, "run/members/*/*.*"),
    "explained": Reader(_write_explained, _read_explained, _sound_explained, "run/[!c]*.*"),
    "updated": Reader(
        _write_updated,
        _read_updated,
        _sound_updated,
        "change/*",
        exchanged=("numba.", "llvmlite.", "copyreg._reconstructor", "builtins.object"),  # kernels that numba has kept
    ),
    "checkpoint": Reader(_write_run, _read_checkpoint, _sound_checkpoint, "run/checkpoint/*", sealed=True),
    "sharded checkpoint": Reader(
        write_sharded_checkpoint,
        read_sharded_checkpoint,
        _sound_checkpoint,
        "epoch-*/*",
        sealed=True,
        exchanged=("torch.distributed.checkpoint.", "torch.Size"),
    ),
    "forged": Reader(_write_forged, _read_forged, _sound_forged, "described/*"),
    "search": Reader(_write_search, _read_search, lambda config: None),
    "race": Reader(_write_race, _read_race, lambda config: None),
    "page": Reader(_write_runs, _read_page, _sound_page, "run/*.*"),
    "comparison": Reader(_write_runs, _read_runs, _sound_page, "run/*.*"),
}
