"""Every command that prints results: as JSON on one line, or without notes."""

import json
from pathlib import Path

import pytest

from gpnn.build import build, create_run, load_config, train_run


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    folder = tmp_path / "friends"
    folder.mkdir()
    rows = "".join(f"{node},{'cat' if node % 2 else 'dog'},{node / 7},{'ab'[node % 2]},1\n" for node in range(30))
    (folder / "nodes.csv").write_text("id,label,age,kind,one\n" + rows)
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{n},{(n + 2) % 30}\n" for n in range(30)))
    return folder


@pytest.fixture
def trained(tmp_path: Path, graph: Path) -> Path:
    config = load_config(None, [f"data.name={graph}", "train.epochs=2", "model.hidden_channels=4"])
    run = create_run(built := build(config), tmp_path / "trained")
    train_run(run, built, report=False)
    return run.path


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    folder = tmp_path / "experiments"
    folder.mkdir()
    lines = ['[[rows]]\nname = "linear"\npaper = { Digits = 90.0 }\nsettings = { model = { cell = "linear" } }']
    lines += ['[[columns]]\nname = "Digits"\nsettings = { data = { name = "digits" } }']
    (folder / "some.toml").write_text("\n".join(lines))
    return folder


COMMANDS = {
    "data list": {"digits", "cora"},
    "data fetch planted": {"planted"},
    "data check friends": {"friends"},
    "data describe friends": {"nodes", "edges", "classes", "nodes by class", "GPNN would choose", "notes"},
    "partition friends -k 2": {"k", "method", "edge cut"},
    "partition friends -k 2 --compare": {"k", "methods"},
    "schedule friends -k 2": {"synchronous", "partitioned"},
    "train friends train.epochs=2 model.hidden_channels=4 --out run": {"run", "test_accuracy"},
    "predict trained --out predicted.csv": {"file", "num_nodes", "num_predictions", "num_new", "notes"},
    "report trained": {"file", "runs"},
    "report trained trained --out both.html": {"file", "runs"},
    "experiment list": {"some"},
    "experiment some --quick": {"experiment", "files", "results"},
}


def make_ready(request: pytest.FixtureRequest, command: str) -> None:
    if command.startswith("report"):
        pytest.importorskip("plotly")
    for name in ("trained", "experiment"):
        if name in command:
            request.getfixturevalue(name)


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_object_and_nothing_else(gpnn, request, graph, command) -> None:
    make_ready(request, command)
    result = gpnn(*command.split(), "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    assert COMMANDS[command] <= set(json.loads(result.stdout))
    assert result.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_quiet_leaves_notes_out(gpnn, request, graph, command) -> None:
    make_ready(request, command)
    result = gpnn(*command.split(), "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_quiet_list_is_for_scripts(gpnn, experiment) -> None:
    assert gpnn("data", "list", "-q").stdout.splitlines()[:2] == ["digits", "cora"]
    assert gpnn("experiment", "list", "-q").stdout == "some\n"


def test_an_experiment_in_json_has_fractions(gpnn, experiment) -> None:
    (entry,) = json.loads(gpnn("experiment", "some", "--quick", "--json").stdout)["results"]
    assert (entry["row"], entry["column"], entry["paper"]) == ("linear", "Digits", 0.9)
    assert 0 < entry["mean"] <= 1
    listed = json.loads(gpnn("experiment", "list", "--json").stdout)["some"]
    assert listed == {"title": "some", "runs": 10, "finished": 0}


def test_notes_say_what_was_decided(gpnn, graph) -> None:
    result = gpnn("data", "describe", "friends")
    note = "note: split drawn with seed 0, 60/20/20 % of each class: 18 nodes train, 6 validate, 6 test"
    assert note in result.stderr.splitlines()
    assert note in gpnn("train", "friends", "train.epochs=2", "--out", "run").stderr.splitlines()


def test_notes_name_the_setting_that_mends_it(gpnn, graph, tmp_path) -> None:
    """Described, trained and on the page: the same notes."""
    lines = (graph / "edges.csv").read_text().splitlines()
    typed = [f"{line},{('likes', 'knows')[number % 2]}" for number, line in enumerate(lines[1:6])]
    (graph / "edges.csv").write_text("\n".join([f"{lines[0]},type", *typed]) + "\n")
    described = gpnn("data", "describe", "friends")
    notes = [line for line in described.stderr.splitlines() if line.startswith("note: ")]
    assert notes[-2].startswith("note: 5 edges have no reverse")
    assert notes[-2].endswith("; data.undirected=true adds it")
    assert notes[-1].startswith("note: 2 edge types count as one")
    assert "model.message=linear" in notes[-1]
    assert json.loads(gpnn("data", "describe", "friends", "--json").stdout)["notes"] == [note[6:] for note in notes]
    trained = gpnn("train", "friends", "train.epochs=2", "--out", "run")
    assert [line for line in trained.stderr.splitlines() if line in notes] == notes
    assert "data.undirected=true adds it" in (tmp_path / "run" / "report.html").read_text()
    assert gpnn("partition", "friends", "-k", 2, "--shards", 1, "--out", "cut", "-q").exit_code == 0
    sharded = gpnn("train", "cut", "train.epochs=2", "--out", "shared", "--no-report")
    assert [line for line in sharded.stderr.splitlines() if line in notes] == notes


def test_files_instead_of_a_folder(gpnn, graph, tmp_path) -> None:
    (graph / "edges.csv").rename(tmp_path / "links.csv")
    words = ["--nodes", "friends/nodes.csv", "--edges", "links.csv"]
    assert json.loads(gpnn("data", "describe", *words, "--json").stdout)["nodes"] == 30
    assert gpnn("train", *words, "train.epochs=2", "--out", "run", "-q", "--no-report").exit_code == 0
    config = (tmp_path / "run" / "config.toml").read_text()
    assert str(tmp_path / "links.csv") in config
    assert json.loads(gpnn("partition", "--edges", "links.csv", "-k", 2, "--json").stdout)["k"] == 2
    assert gpnn("predict", "run", "--out", "again.csv", "-q").exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nodes", "friends/nodes.csv"], "`--nodes` needs `--edges`, or the folder that holds them."),
        (["cora", "--edges", "friends/edges.csv"], "`--edges` goes with a folder of tables or stands alone."),
        (["--edges", "nowhere.csv"], "`--edges` must be a file."),
        (["--edges", "friends/edges.csv"], "A training needs labels"),
        (["friends", "data.label=colour"], "nodes.csv must have a column colour. Got id, label, age, kind, one."),
        (["friends", "data.numbers=odd"], "`numbers` must be one of auto, standard, normal, raw. Got 'odd'."),
        (["friends/nodes.csv"], "must be the folder that holds nodes.* and edges.*"),
        (["freinds"], "a folder of tables, or a file that ends in .graph, .metis, .graphml, .gexf, .pt"),
        (["freinds"], "Got 'freinds' (the nearest is friends)."),
        (["friends", "seed=-1"], "`seed` must be an integer from 0 to 2**63 - 1. Got -1."),
        (["coar"], "Got 'coar' (the nearest is cora)."),
        (["friends", "data.label=one"], "A training needs at least two classes. Got 1 alone."),
    ],
)
def test_mistakes(gpnn, graph, tmp_path, words, sentence) -> None:
    result = gpnn("train", *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["friends"]
