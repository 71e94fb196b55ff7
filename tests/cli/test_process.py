"""`torchrun -m gpnn train`: the same command, a process killed on the way, and a folder of shards."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

from gpnn.cli.process import Interrupt, check_command
from gpnn.distributed import ProcessGroup

ROOT = Path(__file__).parents[2]
DATA = ["data.num_nodes=300", "data.num_classes=3", "data.num_features=20", "data.label_rate=0.2"]
TRAIN = ["model.hidden_channels=8", "train.patience=0", "train.checkpoint_every=5"]


@contextmanager
def torchrun(
    *words: str, processes: int = 2, restarts: int = 0, program: tuple[str, ...] = ("gpnn",)
) -> Iterator[subprocess.Popen]:
    """torchrun, as a user would start it; what is left of it at the end is killed."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [*launcher, "--max-restarts", str(restarts), "-m", *program, "train", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with subprocess.Popen(command, env=environment, **options) as job:
        try:
            yield job
        finally:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)


def workers(job: subprocess.Popen) -> list[int]:
    """The processes that torchrun started, by rank."""
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    ranks = {}
    for child in map(int, children):
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        rank = [entry for entry in environment if entry.startswith(b"RANK=")]
        if rank:
            ranks[int(rank[0].removeprefix(b"RANK="))] = child
    return [ranks[rank] for rank in sorted(ranks)]


def wait_for_epoch(run: Path, epoch: int, seconds: float = 1200) -> None:
    history, until = run / "history.jsonl", time.monotonic() + seconds
    while not history.exists() or history.read_text().count("\n") < epoch:
        assert time.monotonic() < until, "the training did not start"
        time.sleep(0.02)


def history(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_a_killed_process_ends_all_and_a_restart_goes_on(gpnn, tmp_path):
    """From a folder of shards, with a kill in mid-training: the curve of one process that nobody disturbed."""
    prepared = gpnn("partition", "planted", *DATA, "-k", 4, "--shards", 2, "--out", "shards", "--json")
    assert [shard["nodes"] > 0 for shard in json.loads(prepared.stdout)["shards"]] == [True, True]
    words = [*TRAIN, "train.epochs=40"]
    dying = ("tests.oracle.dying", "1", "7")
    with torchrun("shards", *words, "--out", "killed", "--timeout", "300", restarts=1, program=dying) as job:
        alone = gpnn("train", "planted", *DATA, *words, "partition.k=4", "--out", "alone", "--quiet", "--no-report")
        output, _ = job.communicate(timeout=3000)
    assert alone.exit_code == 0, alone.stderr
    assert job.returncode == 0, output
    assert output.count("gpnn: process 0 of 2") == 1, output
    assert "--resume killed" in output
    assert "continuing after epoch" in output
    for ours, theirs in zip(history(tmp_path / "alone"), history(tmp_path / "killed"), strict=True):
        assert theirs["loss"] == pytest.approx(ours["loss"], abs=1e-3)
        assert theirs["sent_bytes"] > 0
    metrics = json.loads((tmp_path / "killed" / "metrics.json").read_text())
    assert metrics["num_processes"] == 2
    assert metrics["num_nodes"] == 300
    assert 0 < metrics["sent_bytes"] < metrics["synchronous_bytes"]
    assert_same_nodes(tmp_path / "alone", tmp_path / "killed")
    page = (tmp_path / "killed" / "report.html").read_text()
    assert "2 processes trained together" in page
    assert "torchrun --nproc-per-node 2 -m gpnn train --config config.toml" in page


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_every_process_that_is_left_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*DATA, *TRAIN, "train.epochs=100000", "partition.k=4", "--out", "run", "--timeout", "120"]
    with torchrun("planted", *words, processes=4) as job:
        wait_for_epoch(tmp_path / "run", 3)
        os.kill(workers(job)[2], signal.SIGKILL)
        output, _ = job.communicate(timeout=3000)
    assert job.returncode != 0
    for rank in (0, 1, 3):  # torchrun's signal may come before the connection is seen to be lost
        said = re.findall(rf"gpnn: process {rank} of 4 (lost another one|received SIGTERM, because another)", output)
        assert len(said) == 1, output
    assert "Traceback" not in output.split("torch/distributed")[0]


def assert_same_nodes(one: Path, other: Path) -> None:
    """Predictions name the nodes in the same order, whoever made them."""
    from pyarrow import parquet

    tables = [parquet.read_table(run / "predictions.parquet") for run in (one, other)]
    assert tables[0].column_names == tables[1].column_names
    for name in ("node", "split", "labelled"):
        assert tables[0][name].to_pylist() == tables[1][name].to_pylist()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_a_silent_process_counts_as_lost_after_the_timeout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*DATA, *TRAIN, "train.epochs=100000", "partition.k=4", "--out", "run", "--timeout", "60"]
    with torchrun("planted", *words) as job:
        wait_for_epoch(tmp_path / "run", 3)
        os.kill(workers(job)[1], signal.SIGSTOP)
        output, _ = job.communicate(timeout=3000)
    assert "did not answer within 60 seconds" in output


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the system what a thread does")
def test_a_first_process_that_hangs_in_its_preparation_is_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*DATA, *TRAIN, "train.epochs=3", "partition.k=4", "--out", "run", "--timeout", "8"]
    with torchrun("planted", *words, program=("tests.oracle.hanging",)) as job:
        output, _ = job.communicate(timeout=3000)
    assert job.returncode != 0
    assert "gpnn: process 1 of 2 lost another one, which ended or did not answer within 8 seconds." in output
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []


@pytest.mark.slow
def test_a_mistake_is_told_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with torchrun("planted", *DATA, "schedule.name=sequential", "--out", "run") as job:
        output, _ = job.communicate(timeout=3000)
    assert output.count("gpnn: ") == 1
    assert "`schedule` must be one of auto, partitioned, held_cut, synchronous. Got 'sequential'." in output


def test_shards_train_without_torchrun(gpnn, tmp_path):
    """A folder of shards is a dataset like others; one process continues what one began."""
    gpnn("partition", "planted", *DATA, "-k", 4, "--shards", 3, "--out", "shards", "--quiet")
    ended = gpnn("train", "shards", *TRAIN, "model.input=both", "train.epochs=6", "--out", "run", "--json")
    assert ended.exit_code == 0, ended.stderr
    metrics = json.loads(ended.stdout)
    assert metrics["num_parts"] == 4
    assert metrics["sent_bytes"] == 0
    assert (tmp_path / "run" / "report.html").exists()
    again = gpnn("train", "--resume", "run")
    assert again.exit_code == 0
    page = gpnn("report", "run", "--out", "again.html", "-q")
    assert page.exit_code == 0, page.stderr
    assert "What each holds" in (tmp_path / "again.html").read_text()
    assert (tmp_path / "run" / "checkpoint" / "epoch-000005").is_dir()
    assert_subgraphs_are_kept(gpnn, tmp_path)


def assert_subgraphs_are_kept(gpnn, folder: Path) -> None:
    """One process divides the graph as the shards did, though it has no labels to start from."""
    from pyarrow import parquet

    from gpnn import Graph, load_dataset
    from gpnn.build import read_trained
    from gpnn.train import RunFolder

    assert gpnn("predict", "run", "planted", *DATA, "--out", "again.parquet", "-q").exit_code == 0
    trained, again = (parquet.read_table(folder / name) for name in ("run/predictions.parquet", "again.parquet"))
    assert again["p_0"].to_pylist() == pytest.approx(trained["p_0"].to_pylist(), abs=1e-5)
    options = {"num_nodes": 300, "num_classes": 3, "num_features": 20, "label_rate": 0.2}
    whole = load_dataset("planted", **options)
    bare = Graph.from_data(whole).to_data()
    bare.x = whole.x
    part = read_trained(RunFolder.open(folder / "run")).known_nodes().partition(bare)
    assert part.labels.tolist() == trained["subgraph"].to_pylist()
    assert part.num_parts == 4


def test_a_run_does_not_go_on_with_other_shards(gpnn, tmp_path):
    for seed in (0, 1):
        words = ["-k", 4, "--shards", 2, "--out", f"shards-{seed}", "--quiet", f"data.seed={seed}"]
        assert gpnn("partition", "planted", *DATA, *words).exit_code == 0
    gpnn("train", "shards-0", *TRAIN, "train.epochs=3", "--out", "run", "--quiet", "--no-report")
    (tmp_path / "run" / "metrics.json").unlink()  # as a kill before the end would leave it
    (tmp_path / "shards-0").rename(tmp_path / "away")
    (tmp_path / "shards-1").rename(tmp_path / "shards-0")
    refused = gpnn("train", "--resume", "run")
    assert refused.exit_code == 2
    assert "shards-0' has changed since; train anew." in refused.stderr


def test_a_run_of_shards_that_diverged_has_no_answers(gpnn, tmp_path):
    gpnn("partition", "planted", *DATA, "-k", 4, "--shards", 2, "--out", "shards", "--quiet")
    failed = gpnn("train", "shards", *TRAIN, "train.learning_rate=1e30", "train.clip=0", "--out", "run", "--quiet")
    assert failed.exit_code == 1
    assert "a training that diverged has no predictions; try a smaller learning rate than 1e+30" in failed.stderr
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert not names & {"metrics.json", "model.safetensors", "predictions.parquet", "report.html"}
    for command in (["train", "--resume", "run"], ["predict", "run", "--out", "a.csv"], ["report", "run"]):
        refused = gpnn(*command)
        assert refused.exit_code == 2
        assert "The training of 'run' failed. The " in refused.stderr


def test_an_absurd_loss_of_shards_is_noted(gpnn, tmp_path):
    gpnn("partition", "planted", *DATA, "-k", 4, "--shards", 2, "--out", "shards", "--quiet")
    words = [*TRAIN, "train.learning_rate=1e6", "train.clip=0", "train.epochs=6", "--out", "run"]
    noted = gpnn("train", "shards", *words)
    assert noted.exit_code == 0, noted.stderr
    assert "more than 10 times that of guessing" in " ".join(noted.stderr.split())
    assert "more than 10 times that of guessing" in (tmp_path / "run" / "report.html").read_text()


def test_a_run_of_shards_keeps_its_settings(gpnn, tmp_path):
    gpnn("partition", "planted", *DATA, "-k", 4, "--shards", 2, "--out", "shards", "--quiet")
    gpnn("train", "shards", *TRAIN, "train.epochs=5", "--out", "run", "--quiet", "--no-report")
    (tmp_path / "run" / "metrics.json").unlink()
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("seed = 0\ndevice", "seed = 1\ndevice"))
    refused = gpnn("train", "--resume", "run")
    assert refused.exit_code == 2
    assert "In run/config.toml seed was 0 and is 1: put that back, or train anew." in refused.stderr
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_mistakes_of_shards(gpnn):
    refused = gpnn("partition", "planted", *DATA, "-k", 2, "--shards", 3, "--out", "shards")
    assert refused.exit_code == 2
    assert "at least one subgraph per process: at least 3. Got 2." in refused.stderr
    refused = gpnn("partition", "planted", *DATA, "--shards", 3)
    assert refused.exit_code == 2
    assert "`--shards` must come with `--out`" in refused.stderr


@pytest.fixture
def process_settings() -> Iterator[None]:
    """Threads and determinism as they were, when the test is over."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("process_settings")
def test_threads_and_determinism_hold_for_shards(gpnn):
    gpnn("partition", "planted", *DATA, "-k", 4, "--shards", 2, "--out", "shards", "--quiet")
    settings = ["train.epochs=1", "threads=3", "deterministic=true"]
    ended = gpnn("train", "shards", *TRAIN, *settings, "--out", "run", "--no-report", "-q")
    assert ended.exit_code == 0, ended.stderr
    assert torch.get_num_threads() == 3
    assert torch.are_deterministic_algorithms_enabled()


def test_memory_and_disk_hold_for_shards(gpnn, tmp_path):
    gpnn("partition", "planted", *DATA, "-k", 4, "--shards", 2, "--out", "shards", "--quiet")
    refused = gpnn("train", "shards", *TRAIN, "memory=0.001", "--out", "run")
    assert refused.exit_code == 2
    assert "Training must fit in 0.0 GB of memory. Got at least" in refused.stderr
    assert "disk=FOLDER" not in refused.stderr
    refused = gpnn("train", "shards", *TRAIN, "disk=files", "--out", "other")
    assert refused.exit_code == 2
    assert "Shards keep their states in memory: `disk` must be empty. Got 'files'." in refused.stderr
    refused = gpnn("train", "shards", *TRAIN, "engine=mapped", "--out", "third")
    assert refused.exit_code == 2
    assert not {"run", "other", "third"} & {path.name for path in tmp_path.iterdir()}  # a mistake leaves no run
    ended = gpnn("train", "shards", *TRAIN, "train.epochs=1", "memory=64", "--out", "last", "--no-report")
    assert ended.exit_code == 0, ended.stderr
    assert "engine: fused; estimated memory" in ended.stderr
    assert not (tmp_path / "files").exists()


@pytest.mark.slow
def test_memory_holds_under_torchrun(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with torchrun("planted", *DATA, "memory=0.001", "--out", "run") as job:
        output, _ = job.communicate(timeout=3000)
    assert job.returncode != 0
    assert output.count("Training must fit in 0.0 GB of memory") == 1


@pytest.mark.slow
def test_recall_and_process_settings_hold_under_torchrun(gpnn, tmp_path):
    """Two processes write the recall that one does; the configuration is rank 0's."""
    words = ["diel_like", "data.scale=0.001", "partition.k=4", "model.hidden_channels=4", "train.epochs=3"]
    words += ["threads=1", "deterministic=true", "--no-report"]
    alone = gpnn("train", *words, "--out", "alone", "--quiet")
    assert alone.exit_code == 0, alone.stderr
    with torchrun(*words, "--out", "two") as job:
        output, _ = job.communicate(timeout=3000)
    assert job.returncode == 0, output
    one, two = (json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("alone", "two"))
    assert two["num_processes"] == 2
    assert two["test_recall"] == pytest.approx(one["test_recall"], abs=0.01)
    assert two["val_loss"] == pytest.approx(one["val_loss"], abs=1e-4)
    assert {path.name for path in (tmp_path / "two").iterdir()} >= {"shards", "predictions.csv", "model.safetensors"}
    assert_same_nodes(tmp_path / "alone", tmp_path / "two")


def started(group: ProcessGroup, commands: list[list[str]]) -> str:
    try:
        check_command(commands[group.rank], group)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_all_processes_have_the_same_command(processes):
    assert processes(started, [["train", "a b"]] * 2, size=2) == [""] * 2
    sentence = "All processes must be started with one command. Got another in process 1."
    answers = processes(started, [["train", "seed=1"], ["train", "seed=2"]], size=2)
    assert answers == [f"ValueError: {sentence}", f"RankFailed: {sentence}"]


RECORD = {"epoch": 1, "loss": 0.5, "val_loss": 1.0, "val_accuracy": 0.75, "seconds": 0.1}


def test_the_second_interrupt_is_immediate():
    with Interrupt() as interrupt:
        assert interrupt.start([]) is False
        assert interrupt.epoch(RECORD) is False
        signal.raise_signal(signal.SIGINT)
        assert interrupt.epoch(RECORD) is True
        assert interrupt.exit_code == 130
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_other_signals_interrupt_too(name, code):
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores one of them
    try:
        with Interrupt() as interrupt:
            interrupt.start([])
            signal.raise_signal(number)
            assert interrupt.epoch(RECORD) is True
            assert interrupt.exit_code == code
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_or_handled_is_left_alone():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            interrupt.start([])
            signal.raise_signal(signal.SIGHUP)
            assert interrupt.epoch(RECORD) is False
    finally:
        signal.signal(signal.SIGHUP, before)


def test_after_the_training_it_is_immediate():
    with Interrupt() as interrupt:
        interrupt.start([])
        interrupt.trains = False
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_before_the_training_it_is_immediate_and_remembered():
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert interrupt.start([]) is True  # where compiled code swallowed what was raised
        assert interrupt.exit_code == 143
