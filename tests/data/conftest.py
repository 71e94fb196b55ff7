"""Small datasets that a person can work out, written as the files that the loaders read."""

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix


def write_planetoid(stem: Path, *, protocol: int = 2, with_ally: bool = True) -> None:
    """Six nodes in Planetoid's files: 0 trains, 1 and 2 are other rows, 4 and 5 test, 3 has no row at all.

    The test rows are in the order 5, 4. Edges 0-1 twice, 1-2, 4-5, each in both directions.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    graph = defaultdict(list)
    graph.update({0: [1, 1], 1: [0, 0, 2], 2: [1], 3: [], 4: [5], 5: [4]})
    rest = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3]], np.float32)
    parts = {
        "x": csr_matrix(rest[:1]),
        "y": np.array([[0, 1]], np.int32),
        "allx": csr_matrix(rest),
        "ally": np.array([[0, 1], [1, 0], [1, 0]], np.int32),
        "tx": csr_matrix(np.array([[5, 5, 0], [0, 4, 4]], np.float32)),
        "ty": np.array([[1, 0], [0, 1]], np.int32),
        "graph": graph,
    }
    for suffix, content in parts.items():
        if suffix != "ally" or with_ally:
            stem.with_name(stem.name + suffix).write_bytes(pickle.dumps(content, protocol=protocol))
    stem.with_name(stem.name + "test.index").write_text("5\n4\n")


def write_kind(root: Path, name: str = "texas", **arrays: np.ndarray | None) -> None:
    """Five nodes in an archive of `kinds`: a path with a loop at its end, classes 1, 1, 2, 2, 2, two splits.

    Args:
        root: the data folder.
        name: of the graph.
        arrays: others in place of the usual ones; None leaves one out.
    """
    usual = {
        "edge_index": np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 4]], np.int32),
        "x_indptr": np.array([0, 1, 1, 3, 4, 5], np.int32),
        "x_indices": np.array([0, 0, 2, 1, 2], np.int32),
        "x_shape": np.array([5, 3]),
        "y": np.array([1, 1, 2, 2, 2]),
        "train_masks": np.array([[1, 0, 1, 0, 0], [0, 1, 0, 1, 0]], bool),
        "val_masks": np.array([[0, 1, 0, 0, 0], [1, 0, 0, 0, 0]], bool),
        "test_masks": np.array([[0, 0, 0, 1, 1], [0, 0, 1, 0, 1]], bool),
    }
    (root / "kinds").mkdir(parents=True, exist_ok=True)
    written = {key: value for key, value in {**usual, **arrays}.items() if value is not None}
    np.savez(root / "kinds" / f"{name}.npz", **written)


@pytest.fixture
def tiny_cora(tmp_path: Path) -> Path:
    """A data folder whose `cora` is the six nodes above."""
    write_planetoid(tmp_path / "planetoid" / "ind.cora.")
    return tmp_path
