"""What scripts rely on: exit codes, one process per run, nothing half-written."""

import builtins
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError

import pytest

from gpnn.__main__ import main
from gpnn.run.folder import lock_run


def start(words: list[str], folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gpnn", *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.thorough
def test_a_run_in_use_is_left_alone(gpnn, tiny, tmp_path) -> None:
    words = [*tiny, "train.epochs=1000000", "train.patience=0", "--out", "run", "--quiet"]
    process = start(["train", *words], tmp_path)
    history = tmp_path / "run" / "history.jsonl"
    try:
        while not history.exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        result = gpnn("train", "--resume", "run")
        assert result.exit_code == 2
        assert "A run folder must be written by one process at a time. 'run' is in use by another." in result.stderr
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=3000)
    finally:
        process.kill()
    assert process.returncode == 130
    (line,) = errors.splitlines()
    assert line.startswith("gpnn: stopped. ")
    assert line.endswith("Continue with: gpnn train --resume run")
    assert output == ""
    with lock_run(tmp_path / "run"):  # the process has let go of it
        pass


def test_an_interrupted_import_is_one_line(monkeypatch, capsys) -> None:
    def interrupted(name, *rest):
        if name == "gpnn.cli":
            raise KeyboardInterrupt
        return importing(name, *rest)

    importing = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "gpnn: stopped.\n"


def test_names_in_errors_do_not_steer_the_terminal(gpnn, tmp_path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,\x1b[31mred\n1,a,x\n2,b,3\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    result = gpnn("train", ".", "--out", "run")
    assert result.exit_code == 2
    assert "\x1b" not in result.stderr
    assert "\\x1b[31mred" in result.stderr


@pytest.mark.thorough
def test_a_report_that_a_kill_prevented_is_written_by_a_resume(gpnn, tiny, tmp_path) -> None:
    pytest.importorskip("plotly")
    assert gpnn("train", *tiny, "--out", "run", "-q").exit_code == 0
    page = tmp_path / "run" / "report.html"
    page.unlink()
    assert gpnn("train", "--resume", "run", "--no-report", "-q").exit_code == 0
    assert not page.exists()
    result = gpnn("train", "--resume", "run", "-q")
    assert result.exit_code == 0, result.stderr
    assert "this run is finished" in result.stderr
    assert page.stat().st_size > 1000


def test_a_run_that_another_process_finished_meanwhile_is_left_as_it_is(gpnn, tiny, tmp_path, monkeypatch) -> None:
    from gpnn import build

    assert gpnn("train", *tiny, "--no-report", "--out", "run", "-q").exit_code == 0
    metrics = tmp_path / "run" / "metrics.json"
    content, before = metrics.read_text(), (tmp_path / "run" / "history.jsonl").stat().st_mtime_ns
    metrics.unlink()
    opened = build.open_run

    def slow(*arguments: object) -> object:
        both = opened(*arguments)
        metrics.write_text(content)  # the other is done while this one reads the graph
        return both

    monkeypatch.setattr(build, "open_run", slow)
    assert gpnn("train", "--resume", "run", "-q").exit_code == 0
    assert (tmp_path / "run" / "history.jsonl").stat().st_mtime_ns == before


def test_a_bug_exits_with_one(gpnn, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("gpnn.data.load.dataset_files", broken)
    assert gpnn("data", "list").exit_code == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["data", "list", "-q"], 0),
        (["data", "check", "nowhere"], 2),
        (["train", "--no-such-option"], 2),
        (["no-such-command"], 2),
        (["predict", "nowhere", "--out", "a.csv"], 2),
        (["partition", "grid", "-k", "0"], 2),
        (["partition", "grid", "-k", "3", "--out", "missing/parts.safetensors"], 2),
    ],
)
def test_codes(gpnn, tmp_path, words, code) -> None:
    result = gpnn(*words)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_control_c_before_the_training_leaves_nothing(gpnn, tiny, tmp_path, monkeypatch) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpnn.build.run.build", pressed)
    result = gpnn("train", *tiny, "--out", "run")
    assert result.exit_code == 130
    assert "gpnn: stopped." in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["train", "cora", "--out", "run"],
        ["partition", "cora", "-k", "2", "--out", "a.safetensors"],
        ["schedule", "cora"],
        ["data", "describe", "cora"],
        ["data", "fetch", "cora"],
    ],
    ids=" ".join,
)
def test_a_dataset_without_a_network_is_one_sentence(gpnn, tmp_path, monkeypatch, words) -> None:
    def unreachable(request, timeout):
        raise URLError(OSError(errno.ECONNREFUSED, "Connection refused"))

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    result = gpnn(*words, "--root", tmp_path / "data")
    assert result.exit_code == 1
    (sentence,) = result.stderr.splitlines()
    file = "ind.cora.allx" if "fetch" in words else "ind.cora.x"
    place, home = tmp_path / "data" / "planetoid", "https://raw.githubusercontent.com/kimiyoung/planetoid/"
    assert sentence.startswith(f"gpnn: {file} is not in {place} and could not be fetched from its public home, {home}")
    assert f"/{file}: Connection refused. Without a network, put it there by hand, or name the data" in sentence
    assert sentence.endswith("with `--root` or GPNN_DATA.")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["data"]
