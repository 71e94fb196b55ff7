import shutil
from pathlib import Path

import pytest
from pyarrow import csv, parquet


@pytest.fixture
def run(finished, tmp_path) -> str:
    shutil.copytree(finished, tmp_path / "run")
    return "run"


def test_the_same_graph_gives_the_same_answers(gpnn, run, tmp_path):
    result = gpnn("predict", run, "planted", "--out", "predicted.parquet")
    assert result.exit_code == 0, result.output
    assert "120 predictions in predicted.parquet" in result.stderr
    assert same_answers(tmp_path / "predicted.parquet", tmp_path / "run")


def same_answers(answers: Path, run: Path) -> bool:
    trained = parquet.read_table(run / "predictions.parquet").drop_columns(["split", "subgraph"])
    return parquet.read_table(answers).drop_columns("new").equals(trained)


def test_a_new_graph(gpnn, run, tmp_path):
    words = ["planted", "data.num_nodes=60", "data.num_classes=3", "data.label_rate=0.3", "data.seed=9"]
    assert gpnn("predict", run, *words, "--out", "new.csv", "-q").exit_code == 0
    table = csv.read_csv(tmp_path / "new.csv")
    assert table.num_rows == 60
    assert table.column_names == [
        "node", "prediction", "confidence", "second", "margin", "labelled", "label", "new", "p_0", "p_1", "p_2",
    ]  # fmt: skip
    for row in table.to_pylist():
        assert row["confidence"] == max(row["p_0"], row["p_1"], row["p_2"])
        assert row[f"p_{row['prediction']}"] == row["confidence"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["planted", "data.num_features=21", "--out", "a.csv"], "The graph must have the run's 20 features. Got 21."),
        (["planted", "--out", "a.txt"], "must end in .parquet or .csv. Got 'a.txt'."),
        (["planted", "--out", "missing/a.csv"], "`--out` must lie in a folder that exists. 'missing' does not."),
    ],
)
def test_mistakes(gpnn, run, tmp_path, words, sentence):
    result = gpnn("predict", run, *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_what_the_run_knows_of_its_nodes_is_not_overwritten(gpnn, run, tmp_path):
    before = (tmp_path / "run" / "predictions.parquet").read_bytes()
    result = gpnn("predict", run, "planted", "--out", "run/predictions.parquet")
    assert result.exit_code == 2
    assert "must not be the run's own predictions.parquet" in result.stderr
    assert (tmp_path / "run" / "predictions.parquet").read_bytes() == before


def test_embeddings_know_their_own_graph_only(gpnn, tiny):
    assert gpnn("train", *tiny, "model.input=embedding", "--out", "run", "-q", "--no-report").exit_code == 0
    assert gpnn("predict", "run", "planted", "--out", "a.csv", "-q").exit_code == 0
    result = gpnn("predict", "run", "planted", "data.num_nodes=60", "--out", "b.csv")
    assert result.exit_code == 2
    assert "predicts on its own graph of 120 nodes only" in result.stderr


def test_an_unfinished_run_is_refused(gpnn, run, tmp_path):
    (tmp_path / "run" / "model.safetensors").unlink()
    result = gpnn("predict", run, "planted", "--out", "a.csv")
    assert "A finished run must hold model.safetensors. 'run' does not." in result.stderr


def test_the_graph_goes_through_the_run_s_transforms(gpnn, tiny, tmp_path):
    assert gpnn("train", *tiny, "data.scale_features=none", "--out", "raw", "-q", "--no-report").exit_code == 0
    assert gpnn("predict", "raw", "planted", "--out", "predicted.parquet", "-q").exit_code == 0
    assert same_answers(tmp_path / "predicted.parquet", tmp_path / "raw")


def test_a_changed_file_of_predictions_is_refused(gpnn, run, tmp_path):
    """New nodes join the subgraphs that it tells."""
    file = tmp_path / "run" / "predictions.parquet"
    table = parquet.read_table(file)
    place = table.column_names.index("subgraph")
    parquet.write_table(table.set_column(place, "subgraph", [[0] * table.num_rows]), file)
    refused = gpnn("predict", run, "planted", "--out", "predicted.parquet")
    assert refused.exit_code == 2
    assert "predictions.parquet must be as it was written, for the subgraphs in it." in refused.stderr
    assert not (tmp_path / "predicted.parquet").exists()
