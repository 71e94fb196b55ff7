"""Every reader, called by itself with damaged files: an answer, or one sentence that names the file."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy.sparse import eye, save_npz

from gpnn.data.graph_file import read_gexf, read_graphml
from gpnn.data.pyg import read_pyg
from gpnn.data.tables import EDGE_READERS, MATRIX_READERS, NODE_READERS
from gpnn.data.tables.metis import read_metis
from tests.trust.mutate import mutate

TABLE = {"id": ["a", "b", "c"], "label": [1, 2, 1], "age": [0.5, 1.5, -2.0]}


def table(path: Path) -> None:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table(TABLE), path)
    elif path.suffix == ".npz":
        np.savez_compressed(path, **{name: np.array(values) for name, values in TABLE.items()})
    elif path.suffix in (".graph", ".metis"):
        path.write_text("% two edges\n3 2 1\n2 5\n1 5 3 7\n2 7\n")
    else:
        mark = "," if path.suffix == ".csv" else "\t"
        rows = [TABLE, *zip(*TABLE.values())]
        path.write_text("".join(mark.join(map(str, row)) + "\n" for row in rows))


def matrix(path: Path) -> None:
    values = np.arange(6.0).reshape(3, 2)
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        save_npz(path, eye(3, 4, format="csr"), compressed=False)
    elif path.suffix == ".parquet":
        parquet.write_table(pyarrow.table({"id": [1, 2, 3], "x": values.tolist()}), path)
    else:
        mark = "," if path.suffix == ".csv" else "\t"
        path.write_text(f"id{mark}x\n1{mark}2.5\n2{mark}-1e3\n")


def xml(path: Path) -> None:
    import networkx

    graph = networkx.path_graph(4)
    networkx.set_node_attributes(graph, {0: "red", 1: "blue"}, "class")
    (networkx.write_graphml_xml if path.suffix == ".graphml" else networkx.write_gexf)(graph, path)


def saved(path: Path) -> None:
    from torch_geometric.data import Data

    torch.save(Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]])), path)


CASES: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], Any]]] = {
    **{f"nodes{ending}": (ending, table, read) for ending, read in NODE_READERS.items()},
    **{f"edges{ending}": (ending, table, read) for ending, read in EDGE_READERS.items() if ending == ".graph"},
    **{f"features{ending}": (ending, matrix, read) for ending, read in MATRIX_READERS.items()},
    "metis": (".metis", table, read_metis),
    "graphml": (".graphml", xml, read_graphml),
    "gexf": (".gexf", xml, read_gexf),
    "pyg": (".pt", saved, read_pyg),
}


def check(name: str, seed: int) -> None:
    ending, write, read = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{ending}"
        write(path)
        path.write_bytes(mutate(seed, path.read_bytes()))
        try:
            read(path)
        except ValueError as error:
            sentence = str(error)
            assert sentence.startswith(path.name)
            assert sentence.endswith(".")
            assert "\n" not in sentence
            assert len(sentence) < 700


@pytest.mark.parametrize("name", CASES)
def test_sound_files_are_read(name: str, tmp_path: Path) -> None:
    ending, write, read = CASES[name]
    write(tmp_path / f"file{ending}")
    assert read(tmp_path / f"file{ending}") is not None


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_damaged_files(name: str) -> None:
    @given(st.integers(0, 2**32))
    @settings(max_examples=60, deadline=None, database=None, derandomize=True)  # the slow form looks for new ones
    def cases(seed: int) -> None:
        check(name, seed)

    cases()


@pytest.mark.parametrize(("name", "seed"), [("graphml", 1647), ("gexf", 36996866)])
def test_what_networkx_stumbled_over(name: str, seed: int) -> None:
    check(name, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_damaged_files(name: str) -> None:
    for seed in range(10_000):
        check(name, seed)
