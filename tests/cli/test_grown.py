"""A graph that has grown since the training: its new nodes are predicted, what it means stays."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from gpnn.cli import app
from gpnn.train import RunFolder

EPOCHS = ["train.epochs=30", "train.patience=0", "model.hidden_channels=8", "partition.k=2"]


def write(folder: Path, num_nodes: int, *, first: int = 0, city: str = "Oslo", also: str = "") -> Path:
    """Two rings, of even and of odd nodes, in cities of their own; labels for the first ten."""
    folder.mkdir(exist_ok=True)
    rows = []
    for node in range(first, first + num_nodes):
        label = ("red", "blue")[node % 2] if node < 10 else ""
        rows.append(f"p{node},{label},{node % 2},{('Rome', city)[node % 2]}\n")
    (folder / "nodes.csv").write_text("id,label,side,city\n" + "".join(rows) + also)
    names = list(range(first, first + num_nodes))
    edges = [f"p{a},p{b}\np{b},p{a}\n" for a, b in zip(names, names[2:])]
    (folder / "edges.csv").write_text("source,target\n" + "".join(edges))
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph and a run of it."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["train", str(write(folder / "old", 20)), *EPOCHS, "--out", str(folder / "run"), "-q", "--no-report"]
    assert CliRunner().invoke(app, words).exit_code == 0
    return folder


@pytest.fixture
def run(gpnn, trained: Path, tmp_path: Path) -> str:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return "run"


def answers(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["node"]: row for row in csv.DictReader(file)}


def test_new_nodes_are_predicted_and_counted(gpnn, run, tmp_path) -> None:
    write(tmp_path / "grown", 26, city="Kyiv")  # every odd node moved to a city that the run has not seen
    result = gpnn("predict", run, "grown", "--out", "predicted.csv")
    assert result.exit_code == 0, result.output
    assert "26 predictions in predicted.csv; 6 of 26 nodes are new to the run" in result.stderr
    assert "note: column city: 1 unseen categories ('Kyiv') count as unknown" in result.stderr
    found = answers(tmp_path / "predicted.csv")
    assert [node for node, row in found.items() if row["new"] == "true"] == [f"p{node}" for node in range(20, 26)]
    assert found["p24"]["prediction"] == "red"
    assert found["p25"]["prediction"] == "blue"
    assert set(found["p0"]) == {
        "node", "prediction", "confidence", "second", "margin", "labelled", "label", "new", "p_blue", "p_red",
    }  # fmt: skip


def test_only_the_new_ones_and_in_another_order(gpnn, run, tmp_path) -> None:
    write(tmp_path / "later", 12, first=12)
    result = gpnn("predict", run, "later", "--only-new", "--out", "new.parquet", "--json")
    assert json.loads(result.stdout) | {"notes": []} == {
        "file": "new.parquet", "num_nodes": 12, "num_predictions": 4, "num_new": 4, "notes": [],
    }  # fmt: skip


def test_the_same_tables_give_the_same_answers(gpnn, run, tmp_path) -> None:
    assert gpnn("predict", run, "--out", "again.csv", "-q").exit_code == 0
    trained, again = answers(tmp_path / "run" / "predictions.csv"), answers(tmp_path / "again.csv")
    assert {node: row["p_red"] for node, row in trained.items()} == {node: row["p_red"] for node, row in again.items()}
    assert [row["labelled"] for row in trained.values()] == ["true"] * 10 + ["false"] * 10


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        ("id,label,city\na,red,Rome\n", "source,target\n", "nodes.csv must have a column side. Got id, label, city."),
        ("id,side,city\na,left,Rome\n", "source,target\n", "nodes.csv, line 2, column side: must be a finite number"),
        ("id,side,city\na,1,Rome\n", "source,target,type\na,a,x\n", "column type: must be an edge type that the model"),
    ],
)
def test_what_the_run_cannot_take(gpnn, run, tmp_path, nodes, edges, sentence) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "nodes.csv").write_text(nodes)
    (tmp_path / "new" / "edges.csv").write_text(edges)
    result = gpnn("predict", run, "new", "--out", "a.csv")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "a.csv").exists()


def test_unknown_labels_and_columns_are_remarked_on(gpnn, run, tmp_path) -> None:
    folder = write(tmp_path / "new", 12)
    text = (folder / "nodes.csv").read_text().replace("p0,red", "p0,green").replace("\n", ",1\n")
    (folder / "nodes.csv").write_text(text.replace("city,1", "city,height"))
    result = gpnn("predict", run, "new", "--out", "a.csv")
    assert result.exit_code == 0, result.output
    assert "count as unlabelled: ['green']" in result.stderr
    assert "columns that the model was not trained on are left out: height" in result.stderr
    assert answers(tmp_path / "a.csv")["p0"]["labelled"] == "false"


def test_embeddings_of_new_nodes_start_from_their_neighbours(gpnn, tmp_path) -> None:
    for name, count in (("old", 20), ("grown", 24)):
        folder = write(tmp_path / name, count)
        text = [line.rsplit(",", 2)[0] for line in (folder / "nodes.csv").read_text().splitlines()]
        (folder / "nodes.csv").write_text("\n".join(text) + "\n")
    assert gpnn("train", "old", *EPOCHS, "--out", "run", "-q", "--no-report").exit_code == 0
    result = gpnn("predict", "run", "grown", "--out", "a.csv")
    assert result.exit_code == 0, result.output
    assert "4 of 24 nodes are new" in result.stderr
    found = answers(tmp_path / "a.csv")
    old = answers(tmp_path / "run" / "predictions.csv")
    assert found["p0"]["prediction"] == old["p0"]["prediction"]
    write(tmp_path / "other", 6, first=100)
    (tmp_path / "other" / "nodes.csv").write_text("id\n" + "".join(f"p{node}\n" for node in range(100, 106)))
    result = gpnn("predict", "run", "other", "--out", "b.csv")
    assert result.exit_code == 2
    assert "predicts on graphs that share nodes with its own 20. Got 6 nodes, none of them known." in result.stderr


def without_labels(folder: Path) -> Path:
    """The same folder, its column of labels gone."""
    lines = [line.split(",") for line in (folder / "nodes.csv").read_text().splitlines()]
    (folder / "nodes.csv").write_text("".join(f"{node},{','.join(rest)}\n" for node, _label, *rest in lines))
    return folder


def probabilities(path: Path) -> list[list[float]]:
    table = parquet.read_table(path)
    return [table[name].to_pylist() for name in ("confidence", "p_blue", "p_red")]


def test_known_nodes_keep_the_partition_that_was_trained_with(gpnn, run, tmp_path) -> None:
    """Flood fill starts from labelled nodes: without them it divided the same graph otherwise, to other answers."""
    without_labels(write(tmp_path / "bare", 20))
    assert gpnn("predict", run, "bare", "--out", "bare.parquet", "-q").exit_code == 0
    assert probabilities(tmp_path / "bare.parquet") == probabilities(tmp_path / "run" / "predictions.parquet")


def test_new_nodes_join_the_subgraph_of_a_neighbour(gpnn, run, tmp_path) -> None:
    from gpnn.build import build_data, load_config, read_trained

    write(tmp_path / "grown", 26)
    trained = read_trained(RunFolder.open(tmp_path / "run"))
    data = build_data(load_config(overrides=["data.name=grown"]), trained.vocabulary)
    part = trained.known_nodes().partition(data).labels.tolist()
    before = parquet.read_table(tmp_path / "run" / "predictions.parquet")["subgraph"].to_pylist()
    assert part[:20] == before
    assert part[20:] == [before[18], before[19]] * 3  # each of the two rings goes on


def test_a_run_of_before_divides_the_graph_anew(gpnn, run, tmp_path) -> None:
    file = tmp_path / "run" / "predictions.parquet"
    table = parquet.read_table(file)
    parquet.write_table(table.drop_columns("subgraph"), file)
    weights, described = RunFolder(tmp_path / "run").read_model()
    del described["predictions_sha256"]
    RunFolder(tmp_path / "run").write_model(weights, described)
    assert gpnn("predict", run, "old", "--out", "again.parquet", "-q").exit_code == 0
    assert probabilities(tmp_path / "again.parquet") == probabilities(file)
    file.unlink()
    assert gpnn("predict", run, "old", "--out", "alone.parquet", "-q").exit_code == 0
    assert probabilities(tmp_path / "alone.parquet") == probabilities(tmp_path / "again.parquet")


def test_columns_find_the_labels_of_known_nodes_by_their_ids(gpnn, tmp_path) -> None:
    """Known nodes in another order, with new ones: the same predictions where nothing around them changed."""
    write(tmp_path / "old", 20)
    assert gpnn("train", "old", "recipe=columns", "--out", "columns", "-q", "--no-report").exit_code == 0
    assert gpnn("predict", "columns", "old", "--out", "same.csv").exit_code == 0
    grown = write(tmp_path / "grown", 26)
    header, *rows = (grown / "nodes.csv").read_text().splitlines(keepends=True)
    (grown / "nodes.csv").write_text("".join([header, *reversed(rows)]))
    result = gpnn("predict", "columns", "grown", "--out", "predicted.csv")
    assert result.exit_code == 0, result.output
    before, after = answers(tmp_path / "same.csv"), answers(tmp_path / "predicted.csv")
    for node in range(16):  # further ones have a new neighbour, or a neighbour's
        assert float(before[f"p{node}"]["p_red"]) == pytest.approx(float(after[f"p{node}"]["p_red"]), abs=1e-5)
    assert [after[f"p{node}"]["prediction"] for node in (24, 25)] == ["red", "blue"]
