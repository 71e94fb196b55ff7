"""Every command that prints results: as JSON on one line, or without remarks."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    folder = tmp_path / "people"
    folder.mkdir()
    rows = "".join(f"{node},{'cat' if node % 2 else 'dog'},{node / 7},{'ab'[node % 2]}\n" for node in range(30))
    (folder / "nodes.csv").write_text("id,label,age,kind\n" + rows)
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{n},{(n + 2) % 30}\n" for n in range(30)))
    return folder


COMMANDS = {
    "data list": {"digits", "cora"},
    "data fetch planted": {"planted"},
    "data check people": {"people"},
    "data describe people": {"nodes", "edges", "classes", "nodes by class", "GPNN would choose", "remarks"},
    "partition people -k 2": {"k", "method", "edge cut"},
    "partition people -k 2 --compare": {"k", "methods"},
    "schedule people -k 2": {"synchronous", "partitioned"},
    "train people train.epochs=2 model.hidden_channels=4 --out run": {"run", "test_accuracy"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_object_and_nothing_else(gpnn, graph, command) -> None:
    result = gpnn(*command.split(), "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    assert COMMANDS[command] <= set(json.loads(result.stdout))
    assert result.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_quiet_leaves_remarks_out(gpnn, graph, command) -> None:
    result = gpnn(*command.split(), "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_quiet_list_is_for_scripts(gpnn) -> None:
    assert gpnn("data", "list", "-q").stdout.splitlines()[:2] == ["digits", "cora"]


def test_remarks_say_what_was_decided(gpnn, graph) -> None:
    result = gpnn("data", "describe", "people")
    note = "note: split drawn with seed 0, 60/20/20 % of each class: 18 nodes train, 6 validate, 6 test"
    assert note in result.stderr.splitlines()
    assert note in gpnn("train", "people", "train.epochs=2", "--out", "run").stderr.splitlines()


def test_files_instead_of_a_folder(gpnn, graph, tmp_path) -> None:
    (graph / "edges.csv").rename(tmp_path / "links.csv")
    words = ["--nodes", "people/nodes.csv", "--edges", "links.csv"]
    assert json.loads(gpnn("data", "describe", *words, "--json").stdout)["nodes"] == 30
    assert gpnn("train", *words, "train.epochs=2", "--out", "run", "-q").exit_code == 0
    config = (tmp_path / "run" / "config.toml").read_text()
    assert str(tmp_path / "links.csv") in config
    assert json.loads(gpnn("partition", "--edges", "links.csv", "-k", 2, "--json").stdout)["k"] == 2
    assert gpnn("predict", "run", "--out", "again.csv", "-q").exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nodes", "people/nodes.csv"], "`--nodes` needs `--edges`, or the folder that holds them."),
        (["cora", "--edges", "people/edges.csv"], "`--edges` goes with a folder of tables or stands alone."),
        (["--edges", "nowhere.csv"], "`--edges` must be a file."),
        (["--edges", "people/edges.csv"], "A training needs labels"),
        (["people", "data.label=colour"], "nodes.csv must have a column colour. Got id, label, age, kind."),
        (["people", "data.numbers=odd"], "`numbers` must be one of standard, raw. Got 'odd'."),
        (["people/nodes.csv"], "a folder of tables, a file that ends in .graph"),
    ],
)
def test_mistakes(gpnn, graph, tmp_path, words, sentence) -> None:
    result = gpnn("train", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["people"]
