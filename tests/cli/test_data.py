import json

import numpy as np
import pytest

from gpnn.data import DATASETS


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 60, (2, 300))
    rows = [f"{a},{b}" for a, b in zip(src, dst)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *rows]) + "\n")
    rows = [f"{n},{'ab'[n % 2]},{n % 2 + rng.normal():.4f}" for n in range(60)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,label,size", *rows]) + "\n")


def test_convert_check_describe_train(gpnn, tables):
    result = gpnn("data", "convert", "edges.csv", "nodes.csv", "graph", "--undirected")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("graph: 60 nodes, ")
    assert "edges: 1 pieces" in result.stderr
    assert gpnn("data", "check", "graph").exit_code == 0
    described = json.loads(gpnn("data", "describe", "graph", "--json").stdout)
    assert (described["nodes"], described["symmetric"], described["classes"]) == (60, True, 2)
    small = ["model.hidden_channels=4", "train.epochs=2", "partition.k=2"]
    result = gpnn("train", "graph", *small, "--out", "run", "--no-report", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["num_edges"] == described["edges"]
    assert gpnn("predict", "run", "graph", "--out", "predictions.csv").exit_code == 0


def test_mistakes(gpnn, tables, tmp_path):
    result = gpnn("data", "convert", "edges.csv", "nodes.csv", "graph", "extra")
    assert result.exit_code == 2
    assert "quote a pattern. Got 4 paths." in result.stderr
    with (tmp_path / "edges.csv").open("a") as file:
        file.write("1,99\n")
    result = gpnn("data", "convert", "edges.csv", "nodes.csv", "graph", "--quiet")
    assert result.exit_code == 2
    assert result.stderr == "gpnn: edges.csv, line 302, column target: must be an id of nodes.csv. Got 99.\n"


def test_json_and_nodes_of_the_edges(gpnn, tables, tmp_path):
    result = gpnn("data", "convert", "edges.csv", "graph", "--json", "--duplicates", "merge")
    found = json.loads(result.stdout)
    assert (found["nodes"], found["symmetric"], found["folder"]) == (60, False, "graph")
    (tmp_path / "graph" / "in_col.npy").write_bytes((tmp_path / "graph" / "out_col.npy").read_bytes())
    assert gpnn("data", "check", "graph").exit_code == 2


def test_list_names_every_dataset(gpnn):
    result = gpnn("data", "list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in DATASETS)


def test_describe_prints_what_was_understood_and_chosen(gpnn, tiny):
    result = gpnn("data", "describe", *tiny[:5])
    assert result.exit_code == 0, result.output
    rows = {
        cells[1].strip(): cells[2].strip() for line in result.stdout.splitlines() if len(cells := line.split("│")) == 4
    }
    assert (rows["nodes"], rows["features"], rows["classes"]) == ("120", "20", "3")
    assert int(rows["0"]) + int(rows["1"]) + int(rows["2"]) == 120
    assert {"GPNN would choose", "subgraphs", "rounds", "hidden channels", "model input"} <= set(rows)
    assert float(rows["homophily (edges within a class)"]) > 0.5


def shown(result) -> set[str]:
    return {cells[1].strip() for line in result.stdout.splitlines() if len(cells := line.split("│")) == 4}


def test_check_a_generated_dataset_and_a_missing_one(gpnn, tmp_path):
    assert gpnn("data", "check", "digits").exit_code == 0
    result = gpnn("data", "check", "cora", "--root", tmp_path)
    assert result.exit_code == 2
    assert "missing" in result.stdout


def test_fetch_what_needs_no_files(gpnn):
    result = gpnn("data", "fetch", "planted")
    assert result.exit_code == 0
    assert "planted: nothing to fetch" in result.stderr


def test_a_folder_of_tables(gpnn, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,label,split\na,cat,train\nb,dog,train\nc,,\nd,cat,val\n")
    (folder / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    assert gpnn("data", "check", "mine").exit_code == 0
    result = gpnn("data", "describe", "mine")
    assert {"nodes by class", "cat", "dog", "edges without a reverse"} <= shown(result)
    assert "note: no node validates" not in result.stderr
    result = gpnn("train", "mine", "train.epochs=2", "data.undirected=true", "--out", "run", "-q", "--no-report")
    assert result.exit_code == 0, result.output
    assert str(folder) in (tmp_path / "run" / "config.toml").read_text()
    assert gpnn("predict", "run", "mine", "--out", "predicted.csv", "-q").exit_code == 0
    lines = (tmp_path / "predicted.csv").read_text().splitlines()
    assert lines[0] == '"node","prediction","confidence","second","margin","labelled","label","new","p_cat","p_dog"'
    assert [line.split(",")[0] for line in lines[1:]] == ['"a"', '"b"', '"c"', '"d"']


def test_an_unknown_dataset_is_one_sentence(gpnn):
    result = gpnn("data", "describe", "corra")
    assert result.exit_code == 2
    assert "Got 'corra'" in result.stderr
