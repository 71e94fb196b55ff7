"""Converted graphs whose arrays were described and signed anew, as a forger would, must still hold together."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpnn import load_dataset
from gpnn.data.convert import ConvertSettings, convert
from gpnn.data.npy_file import write_array
from gpnn.data.stored import describe_array
from gpnn.storage.read import read_json, seal

NUM_NODES, NUM_EDGES = 40, 80


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three converted graphs: dense features, dense ones in 8 bits, and sparse ones; types and weights of edges."""
    root = tmp_path_factory.mktemp("graphs")
    edges = [f"{n},{(n * 7 + 1) % NUM_NODES},{'xy'[n % 2]},{n % 3 + 1}" for n in range(NUM_NODES)]
    edges += [f"{n},{(n + 1) % NUM_NODES},x,1" for n in range(NUM_NODES)]
    (root / "edges.csv").write_text("\n".join(["source,target,type,weight", *edges]) + "\n")
    for name, values in {"dense": [f"{n}.5" for n in range(40)], "sparse": [f"w{n % 20}" for n in range(40)]}.items():
        rows = [f"{n},{'ab'[n % 2]},{value}" for n, value in enumerate(values)]
        (root / f"{name}.csv").write_text("\n".join(["id,label,size", *rows]) + "\n")
        convert(root / "edges.csv", root / f"{name}.csv", root / name)
    convert(root / "edges.csv", root / "dense.csv", root / "int8", settings=ConvertSettings(dtype="int8"))
    return root


def forge(folder: Path, facts: dict[str, Any], arrays: dict[str, Callable[[np.ndarray], np.ndarray] | None]) -> None:
    """Change facts and arrays, remove those that are None, and sign anew."""
    found = read_json(folder / "graph.json") | facts
    del found["sha256"]
    for name, change in arrays.items():
        path = folder / f"{name}.npy"
        if change is None:
            del found["arrays"][name]
            continue
        values = np.ascontiguousarray(change(np.load(path)))
        write_array(path, values)
        found["arrays"][name] = describe_array(path)
    (folder / "graph.json").write_text(json.dumps(seal(found)))


def test_what_is_signed_anew_is_read(graphs: Path, tmp_path: Path) -> None:
    for kind in ("dense", "sparse", "int8"):
        shutil.copytree(graphs / kind, tmp_path / kind)
        forge(tmp_path / kind, {}, {"edge_weight": lambda weight: 2 * weight})
        data = load_dataset(tmp_path / kind)
        assert (data.num_nodes, data.graph.num_edges) == (NUM_NODES, NUM_EDGES)
        assert data.graph.edge_weight.max() == 6


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ({"feature_names": 5}, "feature_names"),
        ({"feature_names": []}, "feature_names"),
        ({"feature_names": [{}]}, "feature_names"),
        ({"edge_type_names": 5}, "edge_type_names"),
        ({"edge_type_names": ["x", "y", "z"]}, "edge_type_names"),
        ({"notes": [5]}, "notes"),
        ({"num_features": 7}, "x"),
        ({"num_features": None}, "x"),
        ({"num_edges": 7}, "in_col|out_col|edge_type|edge_weight"),
        ({"num_edge_types": "2"}, "number of features or edge types"),
        ({"symmetric": "no"}, "symmetric"),
    ],
)
def test_facts_that_do_not_fit(graphs: Path, tmp_path: Path, facts: dict[str, Any], wrong: str) -> None:
    shutil.copytree(graphs / "dense", tmp_path / "graph")
    forge(tmp_path / "graph", facts, {})
    with pytest.raises(ValueError, match=rf"graph\.json must hold a graph\. Got another '({wrong})'\.$"):
        load_dataset(tmp_path / "graph")


@pytest.mark.parametrize("digests", [[1, 2], {"a": "b"}, "0123", [["a"]]])
def test_digests_are_texts(graphs: Path, tmp_path: Path, digests: Any) -> None:
    shutil.copytree(graphs / "dense", tmp_path / "graph")
    arrays = read_json(tmp_path / "graph" / "graph.json")["arrays"]
    forge(tmp_path / "graph", {"arrays": arrays | {"y": arrays["y"] | {"digests": digests}}}, {})
    with pytest.raises(ValueError, match=r"graph\.json must hold a graph\. Got another 'digests of y'\.$"):
        load_dataset(tmp_path / "graph")


def test_ids_that_the_index_does_not_name_are_not_read(graphs: Path, tmp_path: Path) -> None:
    shutil.copytree(graphs / "dense", tmp_path / "graph")
    write_array(tmp_path / "graph" / "ids.npy", np.zeros(NUM_NODES, np.int64))
    assert load_dataset(tmp_path / "graph").get("node_name") is None


def test_classes_are_bounded(graphs: Path, tmp_path: Path) -> None:
    shutil.copytree(graphs / "dense", tmp_path / "graph")
    forge(tmp_path / "graph", {"num_classes": 10**9}, {})
    with pytest.raises(ValueError, match=r"^`num_classes` must be at most 10,000 for 40 nodes\. Got 1,000,000,000\.$"):
        load_dataset(tmp_path / "graph")


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [
        ("dense", "x", lambda x: x[:-1], "another 'x'"),
        ("dense", "x", lambda x: x[:, 0], "another 'x'"),
        ("dense", "x", lambda x: np.stack([x, x]), "another 'x'"),
        ("dense", "x", lambda x: x.astype(bool), "another 'x'"),
        ("dense", "edge_type", lambda types: types - 5, "edge_type` must hold types from 0 to 1. Got -5"),
        ("dense", "edge_type", lambda types: types + 10**9, "edge_type` must hold types from 0 to 1. Got 1000000001"),
        ("dense", "edge_type", lambda types: types.astype(np.float32), "another 'edge_type'"),
        ("dense", "edge_weight", lambda weight: weight.astype(np.int64), "another 'edge_weight'"),
        ("dense", "in_col", lambda col: col.astype(np.int16), "another 'in_col'"),
        ("dense", "in_ptr", lambda ptr: ptr.astype(np.float64), "another 'in_ptr'"),
        ("dense", "in_col", None, "another 'in_col'"),
        ("dense", "out_ptr", None, "another 'out_ptr'"),
        ("int8", "x_scale", lambda scale: np.ones((3, 3), np.float32), "another 'x_scale'"),
        ("int8", "x_scale", None, "another 'x_scale'"),
        ("sparse", "x_ptr", lambda ptr: ptr[::-1], "must begin at 0 and end at the 40 entries of `x`"),
        ("sparse", "x_ptr", lambda ptr: np.r_[ptr[0], ptr[-2:0:-1], ptr[-1]], "must not fall"),
        ("sparse", "x_col", lambda columns: columns + 20, "`x_col` must hold columns from 0 to 19"),
        ("sparse", "x_col", lambda columns: columns - 1, "`x_col` must hold columns from 0 to 19"),
        ("sparse", "x_value", lambda values: values[:-1], "another 'x_value'"),
        ("sparse", "x_value", None, "another 'x_value'"),
    ],
)
def test_arrays_that_do_not_fit(
    graphs: Path,
    tmp_path: Path,
    kind: str,
    name: str,
    change: Callable[[np.ndarray], np.ndarray] | None,
    message: str,
) -> None:
    """Columns beyond the width were read wherever they point."""
    shutil.copytree(graphs / kind, tmp_path / "graph")
    forge(tmp_path / "graph", {}, {name: change})
    with pytest.raises(ValueError, match=message):
        load_dataset(tmp_path / "graph")
