"""Tables in every format make the same graph; random ones against plain loops."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from gpnn.data import load_dataset
from tests.data.tables.example import EDGES, NODES, write
from tests.oracle.tables import encode, match_ids, number_labels

WORDS = st.builds(
    lambda first, rest: (first + rest).rstrip(), st.sampled_from("abcdé0159-_."), st.text("abcdé0159-_. ", max_size=5)
)
IDS = st.one_of(st.integers(-(2**62), 2**62), st.integers(-20, 20)), WORDS
LABELS = st.one_of(st.sampled_from([3, 7, 11, -1]), st.sampled_from([3, 7, 11])), st.sampled_from(["red", "blue", ""])


@st.composite
def graphs(draw: Any) -> dict[str, Any]:
    kind, labels = draw(st.sampled_from(IDS)), draw(st.sampled_from(LABELS))
    ids = draw(st.lists(kind, min_size=1, max_size=12, unique_by=str))
    count = len(ids)
    pick = st.lists(st.sampled_from(ids), max_size=20)
    sources = draw(pick)
    targets = draw(st.lists(st.sampled_from(ids), min_size=len(sources), max_size=len(sources)))
    ages = draw(st.lists(st.integers(-1000, 1000), min_size=count, max_size=count))
    cities = draw(st.lists(st.sampled_from(["Oslo", "Rome", "a b", ""]), min_size=count, max_size=count))
    nodes = {"id": ids, "label": [draw(labels) for _ in ids], "age": ages, "city": cities}
    return {"nodes": nodes, "edges": {"source": sources, "target": targets}}


def write_graph(folder: Path, stem: str, ending: str, columns: dict[str, list[Any]]) -> None:
    path = folder / f"{stem}{ending}"
    text = {name: pyarrow.array(values or [""][:0]) for name, values in columns.items()}
    if ending == ".npz":
        np.savez(path, **{name: np.array(values or np.zeros(0, np.int64)) for name, values in columns.items()})
    elif ending == ".parquet":
        parquet.write_table(pyarrow.table(text), path)
    else:
        options = csv.WriteOptions(delimiter="," if ending == ".csv" else "\t")
        csv.write_csv(pyarrow.table(text), path, options)


@pytest.mark.parametrize("nodes", [".csv", ".tsv", ".parquet", ".npz"])
@pytest.mark.parametrize("edges", [".csv", ".tsv", ".parquet", ".npz"])
def test_every_pair_of_formats(tmp_path: Path, nodes: str, edges: str) -> None:
    write(tmp_path / f"nodes{nodes}", NODES)
    write(tmp_path / f"edges{edges}", EDGES)
    data = load_dataset(tmp_path, numbers="raw")
    assert data.node_name.tolist() == ["anna", "bert", "cleo"]
    assert data.y.tolist() == [1, 0, -1]
    assert data.x.tolist() == [[1.5], [2.5], [3.5]]
    assert data.edge_index.tolist() == [[0, 2], [1, 0]]
    assert data.edge_type.tolist() == [0, 1]
    assert data.edge_weight.tolist() == [1, 0.5]


@given(graphs(), st.sampled_from([".csv", ".tsv", ".parquet", ".npz"]), st.sampled_from([".csv", ".parquet", ".npz"]))
@settings(max_examples=120, deadline=None)
def test_any_graph_in_any_format(graph: dict[str, Any], nodes: str, edges: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_graph(folder, "nodes", nodes, graph["nodes"])
        write_graph(folder, "edges", edges, graph["edges"])
        columns = {key: graph["nodes"][key] for key in ("age", "city")}
        wide = sum(len(set(values) - {""}) for values in [columns["city"]])
        y, classes = number_labels(graph["nodes"]["label"])
        data = load_dataset(folder)
    ends = [match_ids(graph["nodes"]["id"], graph["edges"][end]) for end in ("source", "target")]
    assert data.edge_index.tolist() == ends
    assert list(map(str, data.node_name)) == list(map(str, graph["nodes"]["id"]))
    assert data.x.to_dense().numpy() == pytest.approx(np.array(encode(columns)), abs=1e-5)
    assert data.x.shape[1] == 1 + wide
    assert data.y.tolist() == y
    assert data.class_names == classes


@given(st.lists(st.one_of(*IDS), min_size=1, max_size=8, unique_by=str), st.lists(st.one_of(*IDS), max_size=5))
@settings(max_examples=150, deadline=None)
def test_an_end_is_found_or_refused_with_its_line(ids: list[Any], ends: list[Any]) -> None:
    ends = [*ids[:2], *ends]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for stem, columns in (("nodes", {"id": ids}), ("edges", {"source": ends, "target": [ids[0]] * len(ends)})):
            write_graph(folder, stem, ".csv", {key: list(map(str, values)) for key, values in columns.items()})
        expected = match_ids(ids, ends)
        if expected is None:
            line = next(number for number, end in enumerate(ends) if match_ids(ids, [end]) is None) + 2
            with pytest.raises(
                ValueError, match=rf"^edges\.csv, line {line}, column source: must be an id of nodes\.csv"
            ):
                load_dataset(folder)
        else:
            assert load_dataset(folder).edge_index[0].tolist() == expected
