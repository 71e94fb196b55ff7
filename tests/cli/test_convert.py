"""`gpnn data convert`, and what the other commands make of its folder."""

import json

import numpy as np
import pytest


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
