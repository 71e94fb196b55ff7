"""Tables become the rows that an oracle gives, whatever their files, ids and directions; mistakes name file and row."""

import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch

import gpnn
from gpnn.data.convert import WORK, ConvertSettings, convert
from gpnn.data.stored import check_stored, load_stored, open_stored, stored_names, stored_rows
from gpnn.data.tables import tables
from gpnn.data.tables.vocabulary import Choices
from gpnn.graph.edges import digest_rows
from tests.oracle.rows import rows_of

NUM_NODES, NUM_EDGES = 23, 160


def draw(seed: int = 0):
    """Edges with repetitions and loops: sender, receiver, type, weight."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, NUM_NODES, (2, NUM_EDGES))
    return src, dst, rng.integers(0, 3, NUM_EDGES), rng.integers(1, 9, NUM_EDGES) / 4


def found_rows(stored):
    """The rows on the disk as the oracle has them."""
    ptr, col = stored.array("in_ptr"), stored.array("in_col")
    kinds, weights = stored.get("edge_type"), stored.get("edge_weight")
    entries = [
        (int(col[e]), 0 if kinds is None else int(kinds[e]), 1.0 if weights is None else float(weights[e]))
        for e in range(len(col))
    ]
    return [entries[begin:end] for begin, end in pairwise(ptr)]


def transposed(stored):
    ptr, col = (stored.array(f"{'in' if stored.symmetric else 'out'}_{name}") for name in ("ptr", "col"))
    return [col[begin:end].tolist() for begin, end in pairwise(ptr)]


@pytest.mark.parametrize("name", ["edges.parquet", "edges.csv", "edges.npz", "edges.npy"])
@pytest.mark.parametrize("undirected", [False, True])
def test_rows_of_any_file(table, tmp_path, small_pieces, name, undirected):
    src, dst, _, _ = draw()
    if name.endswith(".npy"):
        np.save(path := tmp_path / name, np.stack([src, dst]))
    else:
        path = table(name, source=src, target=dst)
    nodes = table("nodes.parquet", id=np.arange(NUM_NODES))
    stored = convert(path, nodes, tmp_path / "out", settings=ConvertSettings(undirected))
    edges = [(int(s), int(d), 0, 1.0) for s, d in zip(src, dst)]
    wanted = rows_of(edges, NUM_NODES, undirected=undirected, duplicates="merge" if undirected else "keep")
    assert found_rows(stored) == wanted
    assert stored.symmetric == undirected
    back = rows_of([(d, s, 0, 1.0) for d, row in enumerate(wanted) for s, _, _ in row], NUM_NODES)
    assert transposed(stored) == [[s for s, _, _ in row] for row in back]
    assert set(check_stored(stored).values()) == {"ok"}
    assert not (tmp_path / "out" / WORK).exists()


@pytest.mark.parametrize("duplicates", ["keep", "merge", "sum"])
@pytest.mark.parametrize("undirected", [False, True])
def test_types_and_weights(table, tmp_path, small_pieces, duplicates, undirected):
    src, dst, kind, weight = draw(1)
    names = np.array(["likes", "knows", "hates"])[kind]
    path = table("edges.parquet", source=src, target=dst, type=names, weight=weight)
    nodes = table("nodes.csv", id=np.arange(NUM_NODES))
    stored = convert(path, nodes, tmp_path / "out", settings=ConvertSettings(undirected, duplicates))
    graph = stored_rows(stored)
    assert graph.digest() == digest_rows(graph.rows.ptr, graph.rows.col, graph.edge_type, graph.edge_weight)
    assert stored.facts["edge_type_names"] == ["hates", "knows", "likes"]
    numbers = np.array([2, 1, 0])[kind]
    edges = [(int(s), int(d), int(k), float(w)) for s, d, k, w in zip(src, dst, numbers, weight)]
    assert found_rows(stored) == rows_of(edges, NUM_NODES, undirected=undirected, duplicates=duplicates)


@pytest.mark.parametrize("kind", ["text", "sparse numbers", "near numbers", "numbers as text"])
def test_ids_of_any_kind(table, tmp_path, small_pieces, kind):
    rng = np.random.default_rng(2)
    numbers = rng.permutation(NUM_NODES)
    ids = {
        "text": np.array([f"node {number}, 'ü'" for number in numbers]),
        "sparse numbers": numbers * 10**15 - 7,
        "near numbers": numbers + 100,
        "numbers as text": numbers.astype(str),
    }[kind]
    src, dst, _, _ = draw(3)
    path = table("edges.csv", source=ids[src], target=ids[dst])
    stored = convert(path, table("nodes.csv", id=ids), tmp_path / "out")
    assert found_rows(stored) == rows_of([(int(s), int(d), 0, 1.0) for s, d in zip(src, dst)], NUM_NODES)
    assert [str(name) for name in stored_names(stored)] == [str(name) for name in ids]


@pytest.mark.parametrize("limit", [1, 20, 50])
def test_buckets_larger_than_a_thread_can_sort(table, tmp_path, small_pieces, monkeypatch, limit):
    src, dst, kind, weight = draw(14)
    edges = table("edges.parquet", source=src, target=dst, type=kind, weight=weight)
    nodes = table("nodes.csv", id=np.arange(NUM_NODES))
    monkeypatch.setattr("gpnn.data.convert.runs.FEWEST_BUCKETS", 2)
    wanted = convert(edges, nodes, tmp_path / "whole", settings=ConvertSettings(duplicates="sum"))
    monkeypatch.setattr("gpnn.data.convert.edges.SORT_BYTES", ConvertSettings().share() / limit)
    found = convert(edges, nodes, tmp_path / "out", settings=ConvertSettings(duplicates="sum"))
    assert found.facts == wanted.facts


def test_nodes_that_the_edges_name(tmp_path, small_pieces):
    folder = tmp_path / "pairs"
    folder.mkdir()
    np.save(folder / "source.npy", np.array([7, 7, 100, -3] * 5))
    np.save(folder / "target.npy", np.array([9, 7, -3, 7] * 5, np.int32))
    stored = convert(folder, None, tmp_path / "out", settings=ConvertSettings(duplicates="merge"))
    assert stored_names(stored).tolist() == [-3, 7, 9, 100]
    assert found_rows(stored) == [[(3, 0, 1.0)], [(0, 0, 1.0), (1, 0, 1.0)], [(1, 0, 1.0)], []]


def test_many_files_are_one_table(table, tmp_path, small_pieces):
    src, dst, _, _ = draw(4)
    (tmp_path / "edges").mkdir()
    for number, chosen in enumerate(np.array_split(np.arange(NUM_EDGES), 3)):
        table(f"edges/{number}.parquet", source=src[chosen], target=dst[chosen])
        table(f"part-{number}.csv", source=src[chosen], target=dst[chosen])
    nodes = table("nodes.parquet", id=np.arange(NUM_NODES))
    wanted = rows_of([(int(s), int(d), 0, 1.0) for s, d in zip(src, dst)], NUM_NODES)
    for number, word in enumerate((tmp_path / "edges", tmp_path / "part-*.csv")):
        assert found_rows(convert(word, nodes, tmp_path / f"out{number}")) == wanted


def test_a_graph_without_edges(table, tmp_path):
    path = table("edges.parquet", source=np.empty(0, np.int64), target=np.empty(0, np.int64))
    stored = convert(path, table("nodes.csv", id=["a", "b"]), tmp_path / "out")
    assert (stored.num_nodes, stored.num_edges, stored.symmetric) == (2, 0, True)
    assert gpnn.load_dataset(tmp_path / "out").graph.num_edges == 0


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_data_equals_that_of_tables(table, tmp_path, request, undirected, several):
    if several:
        request.getfixturevalue("small_pieces")
    rng = np.random.default_rng(5)
    src, dst, kind, weight = draw(5)
    columns = {
        "id": np.array([f"n{number}" for number in range(NUM_NODES)]),
        "label": np.array(["red", "blue", ""])[rng.integers(0, 3, NUM_NODES)],
        "size": rng.random(NUM_NODES),
        "colour": np.array(["x", "y", "z"])[np.arange(NUM_NODES) % 3],
    }
    nodes = table("nodes.csv", **columns)
    edges = table("edges.csv", source=columns["id"][src], target=columns["id"][dst], type=kind, weight=weight)
    convert(edges, nodes, tmp_path / "out", settings=ConvertSettings(undirected), choices=Choices(seed=3))
    found, wanted = gpnn.load_dataset(tmp_path / "out"), tables(tmp_path, undirected=undirected, seed=3)
    order = np.lexsort((wanted.edge_type, wanted.edge_index[0], wanted.edge_index[1]))
    assert torch.equal(found.graph.src, wanted.edge_index[0][order])
    assert torch.equal(found.graph.dst, wanted.edge_index[1][order])
    assert torch.equal(found.graph.edge_type.long(), wanted.edge_type[order])
    assert torch.equal(found.graph.edge_weight, wanted.edge_weight[order])
    assert torch.allclose(found.x, wanted.x, rtol=1e-6) if several else torch.equal(found.x, wanted.x)
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(found[name], wanted[name])
    for name in ("class_names", "edge_type_names", "feature_names", "num_classes"):
        assert found[name] == wanted[name]
    assert found.node_name.tolist() == wanted.node_name.tolist()
    assert found.notes == wanted.notes


def test_a_split_and_numbers_to_predict(table, tmp_path, small_pieces):
    split = np.resize(["train", "val", "test", ""], NUM_NODES)
    nodes = table("nodes.parquet", id=np.arange(NUM_NODES), label=np.arange(NUM_NODES) / 2, split=split)
    src, dst, _, _ = draw(6)
    convert(table("edges.csv", source=src, target=dst), nodes, tmp_path / "out")
    data = gpnn.load_dataset(tmp_path / "out")
    assert data.task == "regression"
    assert data.y.tolist() == (np.arange(NUM_NODES) / 2).tolist()
    assert data.val_mask.nonzero().flatten().tolist() == list(range(1, NUM_NODES, 4))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_features_and_labels_of_arrays(tmp_path, small_pieces, monkeypatch, dtype):
    monkeypatch.setattr("gpnn.data.convert.node_tables.BLOCK_BYTES", 100)
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(NUM_NODES, 4)), rng.integers(0, 2, (NUM_NODES, 3))
    x[:, 2] = 0
    for name, values in {"x": x, "y": y, "edges": np.stack(draw(7)[:2], 1)}.items():
        np.save(tmp_path / f"{name}.npy", values)
    paths = {"features": tmp_path / "x.npy", "labels": tmp_path / "y.npy"}
    settings = ConvertSettings(undirected=True, dtype=dtype)
    stored = convert(tmp_path / "edges.npy", None, tmp_path / "out", settings=settings, **paths)
    data = gpnn.load_dataset(tmp_path / "out")
    exact = {"float32": 1e-7, "float16": 1e-3, "int8": 0.5 / 127}[dtype]
    assert stored.array("x").dtype == dtype
    assert np.abs(data.x.float().numpy() - x).max() <= exact * np.abs(x).max()
    assert data.y.tolist() == y.tolist()
    assert data.num_classes == 3
    assert data.get("node_name") is None


def test_features_in_lists_and_classes_of_an_array(table, tmp_path, small_pieces):
    x = np.arange(NUM_NODES * 2, dtype=np.float32).reshape(-1, 2)
    nodes = table("nodes.parquet", id=np.arange(NUM_NODES), x=list(x))
    np.save(tmp_path / "y.npy", np.arange(NUM_NODES) % 4)
    src, dst, _, _ = draw(8)
    convert(table("edges.csv", source=src, target=dst), nodes, tmp_path / "out", labels=tmp_path / "y.npy")
    data = gpnn.load_dataset(tmp_path / "out")
    assert data.x.tolist() == x.tolist()
    assert (data.num_classes, data.y.tolist()) == (4, (np.arange(NUM_NODES) % 4).tolist())


def test_sparse_features(table, tmp_path, small_pieces):
    nodes = table("nodes.csv", id=np.arange(NUM_NODES), word=[f"w{number % 11}" for number in range(NUM_NODES)])
    src, dst, _, _ = draw(9)
    convert(edges := table("edges.csv", source=src, target=dst), nodes, tmp_path / "out")
    data, wanted = gpnn.load_dataset(tmp_path / "out"), tables(tmp_path, nodes=str(nodes), edges=str(edges))
    assert data.x.layout == torch.sparse_csr
    assert torch.equal(data.x.to_dense(), wanted.x.to_dense())


MISTAKES = {
    "an unknown id": (
        {"source": [0, 1, 2, 3, 4, 5, 6, 99], "target": [0] * 8},
        r"edges.parquet, row 7 \(from 0\), column source: must be an id of nodes.csv. Got 99.",
    ),
    "text among numbers": (
        {"source": ["0"] * 9 + ["x"], "target": [0] * 10},
        r"edges.parquet, row 9 \(from 0\), column source: must be an id of nodes.csv. Got 'x'.",
    ),
    "another spelling": (
        {"source": ["0"] * 9 + ["01"], "target": [0] * 10},
        r"nodes.csv has 1: ids must be written alike\). Got '01'.",
    ),
    "an id that is missing": (
        {"source": [0] * 6, "target": [0, 0, 0, 0, 0, None]},
        r"edges.parquet, row 5 \(from 0\), column target: must be an id of nodes.csv. Got ''.",
    ),
    "a weight that is not finite": (
        {"source": [0] * 6, "target": [0] * 6, "weight": [1.0, 1, 1, 1, 1, float("inf")]},
        r"edges.parquet, row 5 \(from 0\), column weight: must be a finite number. Got inf.",
    ),
    "no such column": (
        {"from": [0], "target": [0]},
        r"edges.parquet must have a column source \(--source from takes that for it\). Got from, target.",
    ),
    "another column": (
        {"source": [0], "target": [0], "colour": [0]},
        "edges.parquet may have the columns source, target, type, weight .*Got colour.",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_name_file_and_row(table, tmp_path, small_pieces, mistake):
    columns, sentence = MISTAKES[mistake]
    nodes = table("nodes.csv", id=[1, 0, 2, 3, 4, 5, 6])
    with pytest.raises(ValueError, match=sentence):
        convert(table("edges.parquet", **columns), nodes, tmp_path / "out")
    with pytest.raises(ValueError, match=r"must hold graph.json"):
        open_stored(tmp_path / "out")


def test_mistakes_in_text_name_the_line(table, tmp_path, small_pieces):
    nodes = table("nodes.csv", id=["a", "b"])
    rows = ["a,b"] * 30 + [""] + ["b,a"] * 30
    path = tmp_path / "edges.csv"
    path.write_text("\n".join(["source,target", *rows, "a,c"]) + "\n")
    with pytest.raises(ValueError, match=r"edges.csv, line 63, column target: must be an id of nodes.csv. Got 'c'"):
        convert(path, nodes, tmp_path / "out")
    path.write_text("\n".join(["source,target", *rows, "a,b,c"]) + "\n")
    with pytest.raises(ValueError, match=r"edges.csv, line 63: 2 values are expected. Got 3: 'a,b,c'"):
        convert(path, nodes, tmp_path / "out")
    path.write_text('source,target\n"a",b\n"a",""\n')
    with pytest.raises(ValueError, match=r"edges.csv, line 3, column target: must be an id of nodes.csv. Got ''"):
        convert(path, nodes, tmp_path / "out")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_without_rows_have_the_columns_too(table, tmp_path, ending):
    nodes, full = table("nodes.csv", id=[0, 1]), table("edges-0.csv", source=[0], target=[1])
    table(f"edges-1.{ending}", source=pyarrow.array([], "int64"), target=pyarrow.array([], "int64"))
    assert convert(tmp_path / "edges-*", nodes, tmp_path / "out").num_edges == 1
    full.unlink()
    table(f"edges-1.{ending}", **{"from": pyarrow.array([], "int64"), "target": pyarrow.array([], "int64")})
    with pytest.raises(ValueError, match=rf"edges-1.{ending} must have a column source .*Got from, target\."):
        convert(tmp_path / "edges-*", nodes, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_a_folder_with_other_files_is_left_alone(table, tmp_path):
    edges = table("edges.csv", source=[0], target=[1])
    with pytest.raises(ValueError, match=r"must be new or empty\. '.*' holds edges\.csv\."):
        convert(edges, None, edges.parent)
    assert not (edges.parent / "unfinished").exists()


def test_mistakes_of_nodes(table, tmp_path, small_pieces):
    edges = table("edges.csv", source=[0], target=[0])
    twice = table("nodes.csv", id=[*range(9), 3])
    with pytest.raises(ValueError, match=r"nodes.csv, line 11, column id: must be distinct and is on line 5 already"):
        convert(edges, twice, tmp_path / "out")
    assert not (tmp_path / "out").exists()  # there is nothing to continue from
    texts = table("nodes.csv", id=["a", "", "b"], size=[1, 2, 3])
    with pytest.raises(ValueError, match=r"nodes.csv, line 3, column id: must not be empty"):
        convert(edges, texts, tmp_path / "out")
    with pytest.raises(
        ValueError, match=r"nodes.csv must have a column id \(--id NAME takes another for it\). Got who"
    ):
        convert(edges, table("nodes.csv", who=[0]), tmp_path / "out")
    mixed = table("nodes.csv", id=range(9), size=["1"] * 7 + ["red", "blue"])
    with pytest.raises(ValueError, match=r"nodes.csv, line 9, column size: must be a finite number, like the others"):
        convert(edges, mixed, tmp_path / "out")
    np.save(tmp_path / "x.npy", np.array([[0.0, 1], [np.nan, 0]]))
    with pytest.raises(ValueError, match=r"x.npy, row 1 \(from 0\), column 0: must be a finite number of 32 bits"):
        convert(edges, table("nodes.csv", id=[0, 1]), tmp_path / "out", features=tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"x.npy must have one row for each of the 3 nodes. Got 2"):
        convert(edges, table("nodes.csv", id=[0, 1, 2]), tmp_path / "out", features=tmp_path / "x.npy")


def test_a_folder_that_is_taken(table, tmp_path):
    edges, nodes = table("edges.csv", source=[0], target=[0]), table("nodes.csv", id=[0])
    convert(edges, nodes, tmp_path / "out")
    with pytest.raises(ValueError, match=r"The folder to convert into must be new"):
        convert(edges, nodes, tmp_path / "out")
    with pytest.raises(ValueError, match=r"names none"):
        convert(tmp_path / "nothing-*.csv", nodes, tmp_path / "other")


class Stopped(Exception):
    """A kill, as seen from inside."""


@pytest.mark.thorough
@pytest.mark.parametrize("directed", [True, False])
def test_a_conversion_that_was_ended_goes_on_to_the_same_bytes(table, tmp_path, small_pieces, directed):
    """Ended at each step in turn, it continues; what was done is not done again, and the digests are the same."""
    src, dst, kind, weight = draw(10)
    edges = table("edges.parquet", source=src, target=dst, type=kind, weight=weight)
    nodes = table("nodes.csv", id=np.arange(NUM_NODES), label=np.arange(NUM_NODES) % 2, size=np.arange(NUM_NODES))
    settings = ConvertSettings(undirected=not directed, threads=1)
    steps: list[tuple] = []
    whole = convert(edges, nodes, tmp_path / "whole", settings=settings, progress=lambda *step: steps.append(step))
    limit, calls = 1, 0

    def stop(*step):
        nonlocal calls
        calls += 1
        if calls >= limit:
            raise Stopped

    while True:
        calls = 0
        try:
            stored = convert(edges, nodes, tmp_path / "out", settings=settings, progress=stop)
            break
        except Stopped:
            assert not (tmp_path / "out" / "graph.json").exists()
            limit += 17
    assert limit > 20
    assert stored.facts == whole.facts
    assert set(check_stored(stored).values()) == {"ok"}


def test_other_inputs_begin_anew(table, tmp_path, small_pieces):
    nodes = table("nodes.csv", id=np.arange(NUM_NODES))
    src, dst, _, _ = draw(11)

    def stop(stage, done, total):
        if stage == "rows":
            raise Stopped

    with pytest.raises(Stopped):
        convert(table("edges.parquet", source=src, target=dst), nodes, tmp_path / "out", progress=stop)
    assert list((tmp_path / "out" / WORK).glob("*.run"))
    other = table("edges.parquet", source=dst[:40], target=src[:40])
    stored = convert(other, nodes, tmp_path / "out")
    assert found_rows(stored) == rows_of([(int(s), int(d), 0, 1.0) for s, d in zip(dst[:40], src[:40])], NUM_NODES)


@pytest.mark.thorough
def test_a_killed_process(table, tmp_path):
    """A kill -9 at any time leaves nothing that is taken for a graph, and the same command finishes it."""
    rng = np.random.default_rng(12)
    edges = tmp_path / "edges.npy"
    np.save(edges, rng.integers(0, 3000, (2, 300_000)))
    code = (
        "import os, signal, sys\n"
        "from gpnn.data.convert import convert, ConvertSettings\n"
        "ConvertSettings.batch_rows = lambda self, taken=0.0: 20_000\n"
        "left = [int(sys.argv[3])]\n"
        "def progress(*step):\n"
        "    left[0] -= 1\n"
        "    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "convert(sys.argv[1], None, sys.argv[2], progress=progress)\n"
    )
    for number in (3, 25, 20):
        ended = subprocess.run([sys.executable, "-c", code, edges, tmp_path / "out", str(number)], check=False)
        assert ended.returncode == -9
        assert not (tmp_path / "out" / "graph.json").exists()
    subprocess.run([sys.executable, "-c", code, edges, tmp_path / "out", "-1"], check=True)
    subprocess.run([sys.executable, "-c", code, edges, tmp_path / "whole", "-1"], check=True)
    assert open_stored(tmp_path / "out").facts == open_stored(tmp_path / "whole").facts


def test_damage_is_found(table, tmp_path):
    src, dst, _, _ = draw(13)
    nodes = table("nodes.csv", id=np.arange(NUM_NODES))
    convert(table("edges.csv", source=src, target=dst), nodes, out := tmp_path / "out")
    content = bytearray((out / "in_col.npy").read_bytes())
    content[-1] ^= 1
    (out / "in_col.npy").write_bytes(content)
    assert check_stored(open_stored(out))["in_col.npy"] == "corrupt"
    with pytest.raises(ValueError, match=r"in_col.npy must be as it was written"):
        load_stored(out)
    (out / "in_col.npy").write_bytes(content[:-4])
    with pytest.raises(ValueError, match=r"in_col.npy must have the"):
        open_stored(out)
    (out / "in_col.npy").unlink()
    with pytest.raises(ValueError, match=r"must hold in_col.npy"):
        open_stored(out)
    text = (out / "graph.json").read_text().replace('"symmetric": false', '"symmetric": true')
    (out / "graph.json").write_text(text)
    with pytest.raises(ValueError, match=r"must be as it was written"):
        open_stored(out)


def test_changed_features_are_found(table, tmp_path):
    """A flipped bit of a feature is a number like any other: only the digest tells."""
    src, dst, _, _ = draw(13)
    columns = np.random.default_rng(0).random(NUM_NODES)
    nodes = table("nodes.csv", id=np.arange(NUM_NODES), label=np.arange(NUM_NODES) % 2, height=columns)
    convert(table("edges.csv", source=src, target=dst), nodes, out := tmp_path / "out")
    content = bytearray((out / "x.npy").read_bytes())
    content[-2] ^= 1
    (out / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"x.npy must be as it was written. The bytes from 0 on have another digest"):
        gpnn.load_dataset(out)
    assert np.isfinite(gpnn.load_dataset(out, check=False).x.numpy()).all()


def test_settings_are_checked(tmp_path):
    with pytest.raises(ValueError, match=r"`duplicates` must be"):
        ConvertSettings(duplicates="drop")
    with pytest.raises(ValueError, match=r"`memory` must be at least"):
        ConvertSettings(memory=1e9, threads=30).share()
    shutil.rmtree(tmp_path)
    with pytest.raises(ValueError, match=r"must be a file, a folder of files or a pattern"):
        convert(Path("nowhere.csv"), None, tmp_path)
