import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet
from safetensors.torch import load_file
from typer.testing import CliRunner

from gpnn.check import install_command
from gpnn.cli import app
from tests.cli.conftest import SMALL_MODEL, TINY
from tests.oracle.multi_hot import multi_hot_graph

FILES = ["checkpoint", "config.toml", "environment.json", "history.jsonl", "metrics.json", "model.safetensors"]
AT_THE_END = ["baselines.json", "model_card.md", "predictions.csv", "predictions.parquet"]
TIMED = ("seconds",)


def start(words: list[str], folder: Path, program: tuple[str, ...] = ("gpnn",)) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", *program, "train", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def timeless_metrics(path: Path) -> dict:
    return {name: value for name, value in json.loads(path.read_text()).items() if name not in TIMED}


def history(path: Path) -> list[dict]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in record.items() if name not in TIMED} for record in records]


def test_a_run_folder_is_complete(gpnn, tiny, tmp_path):
    result = gpnn("train", *tiny, "--out", "run")
    assert result.exit_code == 0, result.output
    for words in (
        "majority",
        "neighbours",
        "validation accuracy",
        "test accuracy",
        "seconds",
        "epochs (best)",
        "messages per epoch",
        "run",
    ):
        assert words in result.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names - {"report.html"} == {*FILES, *AT_THE_END}
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert 0 <= metrics["val_accuracy"] <= 1
    assert 0 <= metrics["test_accuracy"] <= 1
    assert metrics["epochs"] == 6 == lines(tmp_path / "run" / "history.jsonl")
    assert metrics["num_messages"] > 0 < metrics["num_updates"]
    table = parquet.read_table(tmp_path / "run" / "predictions.parquet")
    assert table.num_rows == 120
    about = ["node", "prediction", "confidence", "second", "margin", "labelled", "label", "split", "subgraph"]
    assert table.column_names == [*about, "p_0", "p_1", "p_2"]
    assert csv.read_csv(tmp_path / "run" / "predictions.csv").column_names == table.column_names
    assert table["labelled"].to_pylist() == [True] * 120
    assert set(table["split"].to_pylist()) == {"train", "val", "test"}


def test_same_seed_same_bits_other_seed_others(gpnn, tiny, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert gpnn("train", *tiny, f"seed={seed}", "--out", name, "--quiet", "--no-report").exit_code == 0
    read = lambda name: (tmp_path / name / "model.safetensors").read_bytes()  # noqa: E731
    assert read("a") == read("b") != read("c")


def test_messages_count_every_pass(gpnn, tiny):
    words = ["train", *tiny, "train.consistency=0", "--json", "--no-report"]
    one, two = (json.loads(gpnn(*words, f"train.passes={passes}").stdout) for passes in (1, 2))
    assert two["num_messages"] == 2 * one["num_messages"]


def test_quiet_prints_the_run_folder(gpnn, tiny):
    result = gpnn("train", *tiny, "--quiet", "--no-report")
    assert Path(result.stdout.strip()).parent == Path("runs")
    assert Path(result.stdout.strip()).name.startswith("planted-")
    assert result.stderr == ""


def test_a_configuration_file_and_words(gpnn, tiny, tmp_path):
    (tmp_path / "settings.toml").write_text("seed = 5\n[train]\nepochs = 2\n")
    result = gpnn("train", *tiny[:-2], "partition.k=2", "--config", "settings.toml", "--json", "--no-report")
    metrics = json.loads(result.stdout)
    assert (metrics["epochs"], metrics["seed"], metrics["num_parts"]) == (2, 5, 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["modl.cell=gru", "train.epoch=1"],
            "`train.epoch` is not a setting. Did you mean `train.epochs`?\n`modl` is not a setting.",
        ),
        (["data.num_nods=3"], "`data.num_nods` is not a setting. Did you mean `data.num_nodes`?"),
        (["data.num_nodes=many"], "`data.num_nodes` must be an integer. Got 'many'."),
        (["partition.method=magic"], "`partition.method` must be one of flood_fill"),
        (["schedule.name=synchronous", "schedule.intra=2"], "`schedule.intra` is not a setting."),
        (["schedule.normalization=none_such"], "`schedule.normalization` must be one of phase"),
        (["model.cell=gruu"], "`model.cell` must be one of gru"),
        (["partition.k=999"], "`k` must be at most"),
        (["train.passes=1", "train.consistency=1"], "`train.consistency` needs `passes` of at least 2. Got 1."),
        (["device=gpu"], "`device` must be auto, cpu, cuda or cuda:N. Got 'gpu'."),
        (["second"], "There must be one dataset or folder"),
        (["--config", "missing.toml"], "The configuration file must exist"),
        (["--resume", "run"], "`--resume` must stand alone"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(gpnn, tiny, tmp_path, words, sentence):
    result = gpnn("train", *tiny, *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_refused(gpnn, tiny, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    result = gpnn("train", *tiny, "--out", "full")
    assert result.exit_code == 2
    assert "The run folder must be new or empty. 'full' is not." in result.stderr


def test_a_finished_run_is_not_trained_again(gpnn, finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    result = gpnn("train", "--resume", "run", "--no-report")
    assert result.exit_code == 0
    assert "this run is finished" in result.stderr
    assert "test accuracy" in result.stdout
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == before


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory):
    run = tmp_path_factory.mktemp("checkpointed") / "run"
    words = ["train", *TINY, *SMALL_MODEL, "train.checkpoint_every=1", "--no-report", "--out", str(run), "-q"]
    assert CliRunner().invoke(app, words).exit_code == 0
    return run


@pytest.fixture
def stopped(gpnn, checkpointed, tmp_path):
    """A run with a checkpoint and without an end, as a kill leaves it."""
    shutil.copytree(checkpointed, tmp_path / "run")
    (tmp_path / "run" / "metrics.json").unlink()
    return tmp_path / "run"


def change(run, old, new):
    settings = (run / "config.toml").read_text()
    assert settings.count(old) == 1
    (run / "config.toml").write_text(settings.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("seed = 0\ndevice", "seed = 3\ndevice", "seed was 0 and is 3"),
        ("learning_rate = 0.01", "learning_rate = 0.5", "train.learning_rate was 0.01 and is 0.5"),
        ('optimizer = "adam"', 'optimizer = "sgd"', "train.optimizer was 'adam' and is 'sgd'"),
        ("k = 3", "k = 5", "partition.k was 3 and is 5"),
        ("num_classes = 3", "num_classes = 2", "data.num_classes was 3 and is 2"),
        ("rounds = ", "intra = 2\nrounds = ", "schedule.intra was not set and is 2"),
    ],
)
def test_a_changed_setting_is_refused_and_named(gpnn, stopped, old, new, sentence):
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file() and path.name != "config.toml"}
    change(stopped, old, new)
    result = gpnn("train", "--resume", "run")
    assert result.exit_code == 2
    assert result.stderr == (
        f"gpnn: A run must keep the settings that it began with. In run/config.toml {sentence}: "
        "put that back, or train anew.\n"
    )
    assert {path: path.read_bytes() for path in before} == before
    assert gpnn("predict", "run", "--out", "a.csv").stderr == result.stderr


def test_how_long_and_where_may_change(gpnn, stopped):
    epochs = len((stopped / "history.jsonl").read_text().splitlines())
    change(stopped, f"epochs = {epochs}", f"epochs = {epochs + 2}")
    change(stopped, 'threads = "auto"', "threads = 1")
    (stopped / "config.toml").write_text((stopped / "config.toml").read_text() + "# a remark\n")
    assert gpnn("train", "--resume", "run", "-q", "--no-report").exit_code == 0
    assert len((stopped / "history.jsonl").read_text().splitlines()) == epochs + 2


def test_runs_of_older_versions_know_no_settings(gpnn, stopped):
    environment = json.loads((stopped / "environment.json").read_text())
    del environment["settings"]
    (stopped / "environment.json").write_text(json.dumps(environment))
    change(stopped, "learning_rate = 0.01", "learning_rate = 0.5")
    assert gpnn("train", "--resume", "run", "-q", "--no-report").exit_code == 0


def test_resume_needs_a_run(gpnn):
    result = gpnn("train", "--resume", "nowhere")
    assert result.exit_code == 2
    assert "A run folder must hold config.toml. 'nowhere' does not." in result.stderr


def test_search_keeps_the_best_on_validation(gpnn, tiny, tmp_path):
    result = gpnn("train", *tiny, "--search", 3, "--out", "run")
    assert result.exit_code == 0, result.output
    table = json.loads((tmp_path / "run" / "search.json").read_text())["trials"]
    assert [row["trial"] for row in table] == [0, 1, 2]
    assert not any(name.startswith("test") for row in table for name in row)
    assert not any("model.hidden_channels" in row["settings"] for row in table)  # the user has set it
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["val_accuracy"] == max(row["value"] for row in table)
    assert "trial 3: validation accuracy" in result.stderr
    settings = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    noted = json.loads((tmp_path / "run" / "environment.json").read_text())["settings"]
    assert noted["schedule.rounds"] == settings["schedule"]["rounds"]  # those of the best trial are the run's
    (tmp_path / "run" / "metrics.json").unlink()
    change(tmp_path / "run", f"rounds = {settings['schedule']['rounds']}", "rounds = 3")
    assert gpnn("train", "--resume", "run", "-q", "--no-report").exit_code == 0  # the search chooses again
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text()) == settings


@pytest.mark.parametrize("mode", [[], ["--json"], ["--quiet"]])
@pytest.mark.parametrize("epochs", [1, 6])
def test_a_training_that_diverged_has_no_answers(gpnn, tiny, tmp_path, mode, epochs):
    words = [*tiny, "train.learning_rate=1e30", "train.clip=0", f"train.epochs={epochs}"]
    result = gpnn("train", *words, *mode, "--out", "run")
    assert result.exit_code == 1
    assert result.stdout == ""
    sentence = result.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"gpnn: The .* is not finite in epoch [12], where the loss is [\d.nae+]+: a training that diverged has no "
        r"predictions; try a smaller learning rate than 1e\+30, .*\.",
        sentence,
    )
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        *["checkpoint", "config.toml", "environment.json", "failed.json", "history.jsonl"]
    ]
    refusal = f"gpnn: The training of 'run' failed. {sentence.removeprefix('gpnn: ')}\n"
    for command in (["train", "--resume", "run"], ["predict", "run", "--out", "a.csv"], ["report", "run"]):
        refused = gpnn(*command)
        assert (refused.exit_code, refused.stderr) == (2, refusal), command


def test_an_absurd_loss_is_noted_in_the_log_and_on_the_page(gpnn, tiny, tmp_path):
    note = r"the training loss ends at [\d.e+]+, more than 10 times that of guessing \(1\.1\)"
    result = gpnn("train", *tiny, "train.learning_rate=1e6", "train.clip=0", "train.epochs=6", "--out", "run")
    assert result.exit_code == 0
    assert re.search(note, " ".join(result.stderr.split()))
    assert re.search(note, (tmp_path / "run" / "report.html").read_text())
    (tmp_path / "run" / "report.html").unlink()
    assert gpnn("report", "run").exit_code == 0
    assert re.search(note, (tmp_path / "run" / "report.html").read_text())


def test_a_trial_that_diverged_is_not_chosen(gpnn, tiny, tmp_path):
    result = gpnn("train", *tiny, "train.clip=0", "train.learning_rate=1e30", "--search", 3, "--out", "run", "-q")
    trials = json.loads((tmp_path / "run" / "search.json").read_text())["trials"]
    assert [trial["value"] for trial in trials] == [None] * 3
    assert result.exit_code == 1


@pytest.mark.thorough
def test_killed_and_resumed_ends_at_the_same_bits(gpnn, tiny, tmp_path):
    words = [*tiny, "train.epochs=80", "train.patience=0", "train.checkpoint_every=7", "train.passes=2"]
    assert gpnn("train", *words, "--quiet", "--out", "whole").exit_code == 0
    process = start([*words, "--quiet", "--out", "killed"], tmp_path, program=("tests.oracle.dying", "0", "24"))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "metrics.json").exists()
    assert lines(tmp_path / "killed" / "history.jsonl") == 24
    assert gpnn("train", "--quiet", "--resume", "killed").exit_code == 0
    whole, resumed = tmp_path / "whole", tmp_path / "killed"
    assert (whole / "model.safetensors").read_bytes() == (resumed / "model.safetensors").read_bytes()
    assert (whole / "predictions.parquet").read_bytes() == (resumed / "predictions.parquet").read_bytes()
    assert timeless_metrics(whole / "metrics.json") == timeless_metrics(resumed / "metrics.json")
    assert history(whole / "history.jsonl") == history(resumed / "history.jsonl")


@pytest.mark.thorough  # test_stop.py has the form without a process
@pytest.mark.parametrize(("number", "name", "code"), [(signal.SIGINT, "Ctrl-C", 130), (signal.SIGTERM, "SIGTERM", 143)])
def test_a_signal_leaves_a_run_to_continue(gpnn, tiny, tmp_path, number, name, code):
    words = [*tiny, "train.epochs=100000", "train.patience=0", "--out", "run"]
    process = start(words, tmp_path)
    try:
        wait_for(lambda: lines(tmp_path / "run" / "history.jsonl") > 3, process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=3000)
    finally:
        process.kill()
    assert process.returncode == code
    assert f"stopping after this epoch; {name} again stops at once" in errors
    assert "Continue with: gpnn train --resume run" in errors
    assert "Traceback" not in errors
    done = lines(tmp_path / "run" / "history.jsonl")
    tensors = load_file(tmp_path / "run" / "checkpoint" / "training.safetensors")
    assert any(name.startswith("optimizer/") for name in tensors)
    config = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(config.replace("epochs = 100000", f"epochs = {done + 2}"))
    assert gpnn("train", "--resume", "run", "--quiet").exit_code == 0
    assert lines(tmp_path / "run" / "history.jsonl") == done + 2


def test_a_folder_of_nodes_with_several_labels(gpnn, tmp_path):
    data, folder = multi_hot_graph(), tmp_path / "graph"
    folder.mkdir()
    split = np.repeat(["train", "val", "test", ""], [30, 30, 45, 15])
    (folder / "nodes.csv").write_text("id,split\n" + "".join(f"{node},{part}\n" for node, part in enumerate(split)))
    edges = "".join(f"{src},{dst}\n" for src, dst in data.edge_index.T.tolist())
    (folder / "edges.csv").write_text("source,target\n" + edges)
    np.savez(folder / "features.npz", data.x.numpy())
    np.savez(folder / "labels.npz", data.y.numpy())
    words = ["graph", "model.hidden_channels=8", "train.epochs=6", "partition.k=3", "--no-report"]
    result = gpnn("train", *words, "--out", "run")
    assert result.exit_code == 0, result.output
    for name in ("macro F1", "ROC AUC", "average precision"):
        assert f"test {name}" in result.stdout
    assert "accuracy" not in result.stdout
    assert gpnn("predict", "run", "graph", "--out", "predicted.csv", "-q").exit_code == 0
    trained = parquet.read_table(tmp_path / "run" / "predictions.parquet")
    answers = np.genfromtxt(tmp_path / "predicted.csv", delimiter=",", names=True)
    for label in range(4):
        assert answers[f"p_{label}"] == pytest.approx(trained[f"p_{label}"].to_numpy(), rel=1e-5)
    described = gpnn("data", "describe", "graph")
    assert described.exit_code == 0, described.output
    assert "105" in described.stdout


@pytest.mark.thorough
def test_tensorboard_changes_nothing_else(gpnn, tiny, tmp_path):
    pytest.importorskip("tensorboard")
    assert gpnn("train", *tiny, "--out", "plain", "--quiet").exit_code == 0
    result = gpnn("train", *tiny, "--out", "drawn", "--quiet", "--tensorboard")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert names - {"report.html"} == {*FILES, *AT_THE_END, "tensorboard"}
    assert any((tmp_path / "drawn" / "tensorboard").iterdir())
    for name in ("config.toml", "model.safetensors", "predictions.parquet"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "drawn" / name).read_bytes()


def test_without_tensorboard_nothing_is_trained(gpnn, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    result = gpnn("train", *tiny, "--out", "run", "--tensorboard")
    assert result.exit_code == 2
    assert f"A curve of TensorBoard needs tensorboard: {install_command('log')}" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def short_recipes(monkeypatch):
    """The recipes with a few epochs each."""
    from dataclasses import replace

    from gpnn.recipes import RECIPES

    for name, recipe in RECIPES.items():
        monkeypatch.setitem(RECIPES, name, replace(recipe, train=replace(recipe.train, epochs=8, patience=0)))


@pytest.mark.thorough
def test_where_no_model_is_chosen_recipes_race(gpnn, tiny_graph, tmp_path, short_recipes):
    result = gpnn("train", *tiny_graph, "seed=1", "--out", "run")
    assert result.exit_code == 0, result.output
    race = json.loads((tmp_path / "run" / "race.json").read_text())
    assert re.search(r"^race: at most \d+ s of a budget of \d+ s; an epoch of spread ", result.stderr, re.MULTILINE)
    assert "race, rung 1: spread, validation accuracy" in result.stderr
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert race["winner"] == config["recipe"] in race["record"]["costs"]
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["val_accuracy"] == max(row["value"] for row in race["record"]["rows"] if row["rung"] == 2)
    assert not any(name.startswith("test") for row in race["record"]["rows"] for name in row)
    assert len((tmp_path / "run" / "history.jsonl").read_text().splitlines()) == metrics["epochs"]
    assert "What was tried" in (tmp_path / "run" / "report.html").read_text()
    assert gpnn("predict", "run", "--out", "a.csv").exit_code == 0
    words = [*tiny_graph, f"recipe={race['winner']}", "seed=1"]  # what won is what it is alone, to the same bits
    assert gpnn("train", *words, "--out", "alone", "-q", "--no-report").exit_code == 0
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "alone"))
    assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.thorough
def test_a_setting_of_a_model_is_a_choice_and_what_leaves_it_open_is_kept(gpnn, tiny_graph, tmp_path, short_recipes):
    assert gpnn("train", *tiny_graph, "train.dropout=0.1", "--out", "wrong").exit_code == 2
    assert gpnn("train", *tiny_graph, "model.dropout=0.1", "--out", "chosen", "-q", "--no-report").exit_code == 0
    assert not (tmp_path / "chosen" / "race.json").exists()
    assert tomllib.loads((tmp_path / "chosen" / "config.toml").read_text())["recipe"] == "spread"
    words = [*tiny_graph, "train.metric=macro_f1", "budget=1h"]
    assert gpnn("train", *words, "--out", "open", "-q", "--no-report").exit_code == 0
    race = json.loads((tmp_path / "open" / "race.json").read_text())
    assert (race["record"]["metric"], race["record"]["budget"], race["record"]["measured"]) == (
        "macro_f1",
        3600.0,
        True,
    )
    assert tomllib.loads((tmp_path / "open" / "config.toml").read_text())["train"]["metric"] == "macro_f1"


def test_a_race_and_a_search_are_two_things(gpnn, tiny_graph):
    refused = gpnn("train", *tiny_graph, "recipe=auto", "--search", 2)
    assert refused.exit_code == 2
    assert "`--search` tries settings of one recipe: `recipe` must be one of them. Got 'auto'." in refused.stderr
    refused = gpnn("train", *tiny_graph, "budget=soon")
    assert "`budget` must be a time such as 90s, 10m or 1h, or auto. Got 'soon'." in refused.stderr


@pytest.mark.thorough
def test_a_race_that_was_killed_goes_on_to_the_same_bits(gpnn, tiny, tmp_path):
    words = [*tiny, "recipe=auto", "train.epochs=48", "train.patience=0", "train.checkpoint_every=5"]
    assert gpnn("train", *words, "-q", "--no-report", "--out", "whole").exit_code == 0
    killed = [*words, "-q", "--no-report", "--out", "killed"]
    for epoch in ("3", "14"):  # in the first rung, and in the second
        process = start(killed, tmp_path, program=("tests.oracle.dying", "0", epoch))
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        killed = ["--resume", "killed", "-q", "--no-report"]
    assert gpnn("train", *killed).exit_code == 0
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(np.array_equal(one[key], other[key]) for key in one)
    assert timeless_metrics(tmp_path / "killed" / "metrics.json") == timeless_metrics(
        tmp_path / "whole" / "metrics.json"
    )
    records = [json.loads((tmp_path / name / "race.json").read_text()) for name in ("whole", "killed")]
    for race in records:
        race["record"]["rows"] = [{**row, "seconds": 0} for row in race["record"]["rows"]]
    assert records[0] == records[1]
