"""Cora, Citeseer, Pubmed and NELL from the files of Planetoid (Yang, Cohen and Salakhutdinov, 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.data.features import from_scipy
from gpnn.data.files import PREFIXES, RECOVERED_LABELS, named_reader, require
from gpnn.data.splits import Split, split_nodes, split_per_class
from gpnn.data.tables.binary import read_archive
from gpnn.data.unpickle import read_pickle
from gpnn.storage.read import check_expansion, read_text

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data

SUFFIXES = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
NUM_VAL = 500
RATES = ("0.1", "0.01", "0.001")
THIS_RATE, OTHER_TEST = 1 | 2, 4  # bits of `source_*`: known at this rate, a test label of another rate


def citations(
    name: str,
    root: Path,
    *,
    split: str = "standard",
    seed: int = 0,
    normalize_features: bool = False,
    sparse: bool = False,
) -> Data:
    """A citation network.

    Every citation of the file is an edge in both directions; repeated ones are kept (`Graph.coalesce` removes
    them). Citeseer's 15 test ids without a row get zero features and label -1.

    Args:
        name: of `CITATIONS`.
        root: the data folder.
        split: "standard" (Planetoid's training and test nodes, Kipf's 500 for validation), "random" (20 per
            class, 500, 1,000, as in the paper's appendix) or "development" (20 per class, 500, and to test on all
            others but Planetoid's test nodes, so that settings can be chosen without reading these).
        seed: the draw of a random split.
        normalize_features: divide each row of features by its sum.
        sparse: return the features as a sparse CSR tensor.
    """
    from torch_geometric.data import Data

    check_choice("split", split, ("standard", "random", "development"))
    require([PREFIXES[name] + suffix for suffix in SUFFIXES], root)
    parts = read_parts(root / PREFIXES[name])
    y, features = parts.labels(), parts.features()
    if not sparse:
        stored = features.data.nbytes + features.indptr.nbytes
        check_expansion(f"{PREFIXES[name]}allx", 4 * math.prod(features.shape), stored)
    if split == "random":
        masks = split_per_class(y, per_class=20, num_val=500, num_test=1000, seed=seed)
    elif split == "development":
        held = y.clone()
        held[parts.test_index] = -1
        masks = split_per_class(held, per_class=20, num_val=NUM_VAL, seed=seed)
    else:
        masks = parts.split(parts.validation_nodes())
    return Data(
        x=from_scipy(features, sparse=sparse, normalize=normalize_features),
        edge_index=parts.edge_index,
        y=y,
        num_classes=parts.train_labels.shape[1],
        **masks._asdict(),
    )


CITATIONS = {
    "cora": "Citations among 2,708 machine-learning papers of 7 topics; 1,433 words.",
    "citeseer": "Citations among 3,327 computer-science papers of 6 areas; 3,703 words.",
    "pubmed": "Citations among 19,717 papers on 3 types of diabetes; 500 words, weighted by tf-idf.",
}
PLANETOID = {name: named_reader(citations, name, line) for name, line in CITATIONS.items()}


@dataclass(frozen=True, eq=False)
class Parts:
    """The files of one Planetoid dataset: nodes 0…A−1 are the rows of `allx`, the test nodes those of `tx`.

    Attributes:
        train_labels: one-hot labels of the first nodes, which train, `[T, C]`.
        rest_features: features of the first A nodes, `[A, F]`.
        rest_labels: one-hot labels of the first A nodes, `[A, C]`, or None where the file is missing.
        test_features, test_labels: of the nodes in `test_index`, `[S, F]` and `[S, C]`.
        test_index: the test nodes, in the order of those rows, `[S]`.
        edge_index: (node, neighbour) of every adjacency entry in the order of the file, `[2, E]`.
        num_nodes: nodes of the graph, some of which may have no row at all.
    """

    train_labels: np.ndarray
    rest_features: scipy.sparse.csr_matrix
    rest_labels: np.ndarray | None
    test_features: scipy.sparse.csr_matrix
    test_labels: np.ndarray
    test_index: np.ndarray
    edge_index: Tensor
    num_nodes: int

    def features(self) -> scipy.sparse.csr_matrix:
        """Features of every node, zero where the files have no row, `[N, F]`."""
        from scipy.sparse import csr_matrix, vstack

        width = self.rest_features.shape[1]
        empty = csr_matrix((1, width), dtype=np.float32)
        return vstack([self.rest_features, self.test_features, empty], format="csr")[self._rows()]

    def labels(self) -> Tensor:
        """Class of every node, -1 where the files have none, `[N]`."""
        known = self.train_labels if self.rest_labels is None else self.rest_labels
        y = np.full(self.num_nodes, -1, np.int64)
        y[: len(known)] = _classes(known)
        y[self.test_index] = _classes(self.test_labels)
        return torch.from_numpy(y)

    def validation_nodes(self) -> np.ndarray:
        """Kipf's validation nodes: the 500 after the training ones, as far as `allx` goes."""
        start = len(self.train_labels)
        return np.arange(start, min(start + NUM_VAL, self.rest_features.shape[0]))

    def split(self, validation: np.ndarray) -> Split:
        """Planetoid's training and test nodes, with the given nodes for validation."""
        return split_nodes(self.num_nodes, np.arange(len(self.train_labels)), validation, self.test_index)

    def _rows(self) -> np.ndarray:
        """Of each node, its row in the stack of `allx`, `tx` and one empty row, `[N]`."""
        first, second = self.rest_features.shape[0], self.test_features.shape[0]
        rows = np.full(self.num_nodes, first + second)
        rows[:first] = np.arange(first)
        rows[self.test_index] = first + np.arange(second)
        return rows


def read_parts(stem: Path) -> Parts:
    """Read the files whose paths begin with `stem`, such as `planetoid/ind.cora.`; `ally` may be missing."""
    read = {suffix: stem.with_name(stem.name + suffix) for suffix in SUFFIXES}
    edge_index, num_nodes = _adjacency(read_pickle(read["graph"]), read["graph"])
    parts = Parts(
        train_labels=read_pickle(read["y"]),
        rest_features=read_pickle(read["allx"]),
        rest_labels=read_pickle(read["ally"]) if read["ally"].is_file() else None,
        test_features=read_pickle(read["tx"]),
        test_labels=read_pickle(read["ty"]),
        test_index=_node_list(read["test.index"]),
        edge_index=edge_index,
        num_nodes=num_nodes,
    )
    _check_parts(parts, stem.name)
    return parts


def _adjacency(graph: Any, path: Path) -> tuple[Tensor, int]:
    if type(graph) is not dict or not all(type(neighbours) is list for neighbours in graph.values()):
        raise ValueError(f"{path.name} must hold a dictionary of lists of neighbours.")
    lengths = np.fromiter(map(len, graph.values()), np.int64, len(graph))
    if lengths.sum() > path.stat().st_size:  # a list repeated by reference
        raise ValueError(f"{path.name} must write each neighbour once. Got {lengths.sum()} entries.")
    try:
        nodes = np.fromiter(map(index, graph), np.int64, len(graph))
        dst = np.fromiter(map(index, chain.from_iterable(graph.values())), np.int64, int(lengths.sum()))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{path.name} must hold integers for nodes.") from None
    if not np.array_equal(np.sort(nodes), np.arange(len(nodes))):
        raise ValueError(f"{path.name} must number its {len(nodes)} nodes from 0 without gaps.")
    return torch.from_numpy(np.stack([np.repeat(nodes, lengths), dst])), len(nodes)


def _node_list(path: Path) -> np.ndarray:
    """The integers of a file, one per line."""
    text = read_text(path)
    try:
        return np.array([int(line) for line in text.split()], np.int64)
    except (ValueError, OverflowError):
        raise ValueError(f"{path.name} must hold one node per line. Got something else.") from None


def _check_parts(parts: Parts, stem: str) -> None:
    _check_tables(parts, stem)
    test = parts.test_index
    if len(np.unique(test)) != len(test):
        raise ValueError(f"{stem}test.index must name each node once. Got a node twice.")
    if len(test) != parts.test_features.shape[0] or len(test) != len(parts.test_labels):
        raise ValueError(f"{stem}test.index must have one line for each row of tx and ty. Got {len(test)}.")
    if len(test) and (test.min() < parts.rest_features.shape[0] or test.max() >= parts.num_nodes):
        raise ValueError(
            f"{stem}test.index must hold nodes from {parts.rest_features.shape[0]} to {parts.num_nodes - 1}. "
            f"Got {test.min()} to {test.max()}."
        )
    if parts.rest_labels is not None and len(parts.rest_labels) != parts.rest_features.shape[0]:
        raise ValueError(f"{stem}ally must have as many rows as allx. Got {len(parts.rest_labels)}.")


def _check_tables(parts: Parts, stem: str) -> None:
    from scipy.sparse import issparse

    features, labels = (parts.rest_features, parts.test_features), [parts.train_labels, parts.test_labels]
    labels += [] if parts.rest_labels is None else [parts.rest_labels]
    if not all(map(issparse, features)) or any(type(each) is not np.ndarray or each.ndim != 2 for each in labels):
        raise ValueError(f"{stem}* must hold sparse features and labels of two dimensions. Got something else.")
    if features[0].shape[1] != features[1].shape[1]:
        raise ValueError(f"{stem}tx must have the {features[0].shape[1]} columns of allx. Got {features[1].shape[1]}.")
    if not labels[0].shape[1] or any(each.shape[1] != labels[0].shape[1] for each in labels):
        raise ValueError(f"{stem}y, ty and ally must have as many columns, at least one. Got others.")
    if len(parts.train_labels) > features[0].shape[0] or features[0].shape[0] > parts.num_nodes:
        raise ValueError(f"{stem}* must have no more rows of y than of allx, and of allx than nodes. Got more.")


def _classes(one_hot: np.ndarray) -> np.ndarray:
    """The column of each row's one, -1 for a row of zeros."""
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def nell(root: Path, *, rate: float = 0.001) -> Data:
    """Knowledge graph: 9,891 entities of 210 kinds (105 occur) among 55,864 relation nodes; label rates 0.1-0.001.

    A triple (e1, r, e2) is two edges, (e1, r1) and (e2, r2), with a relation node for each. Entities have 5,414
    sparse counts; each relation node has a column of its own, which makes 61,278. Repeated edges are kept.

    Validation is Kipf's, the 500 entities after the training ones, where `ally` is present. Without it 500 nodes are
    drawn, seed 0, from those whose label is a test label of another rate.

    Args:
        rate: labelled share of each class: 0.1, 0.01 or 0.001.
    """
    from torch_geometric.data import Data

    if str(rate) not in RATES:
        raise ValueError(f"`rate` must be one of {', '.join(RATES)}. Got {rate!r}.")
    stem = f"nell/ind.nell.{rate}."
    require([stem + suffix for suffix in SUFFIXES if suffix != "ally"], root)
    if not (root / RECOVERED_LABELS).is_file():
        require([stem + "ally"], root)
    parts = read_parts(root / stem)
    y, val = _kipf(parts) if parts.rest_labels is not None else _recovered(parts, root, str(rate))
    return Data(
        x=from_scipy(_with_relations(parts), sparse=True),
        edge_index=parts.edge_index,
        y=y,
        **parts.split(val)._asdict(),
        num_classes=parts.train_labels.shape[1],
    )


def _with_relations(parts: Parts) -> scipy.sparse.csr_matrix:
    """The entities' counts, and after them one column per relation node, in the order of their ids."""
    from scipy.sparse import csr_matrix, hstack

    relation = np.ones(parts.num_nodes, bool)
    relation[: parts.rest_features.shape[0]] = False
    relation[parts.test_index] = False
    nodes = np.flatnonzero(relation)
    columns = np.arange(len(nodes))
    own = csr_matrix((np.ones(len(nodes), np.float32), (nodes, columns)), (parts.num_nodes, len(nodes)))
    return hstack([parts.features(), own], format="csr")


def _kipf(parts: Parts) -> tuple[Tensor, np.ndarray]:
    """All labels `[N]`, and those of the 500 nodes after the training ones that have a label."""
    y = parts.labels()
    nodes = parts.validation_nodes()
    return y, nodes[y.numpy()[nodes] >= 0]


def _recovered(parts: Parts, root: Path, rate: str) -> tuple[Tensor, np.ndarray]:
    """The labels carried over from the other rates, `[N]`, and 500 of their test nodes."""
    labels, source = _carried_over(root / RECOVERED_LABELS, rate.replace(".", "_"), parts.num_nodes)
    known = parts.labels().numpy()
    y = np.where(known >= 0, known, labels)
    candidates = np.flatnonzero((source & OTHER_TEST > 0) & (source & THIS_RATE == 0))
    if len(candidates) < NUM_VAL:
        raise ValueError(f"{RECOVERED_LABELS} must have {NUM_VAL} nodes to validate on. Got {len(candidates)}.")
    return torch.from_numpy(y), np.random.default_rng(0).choice(candidates, NUM_VAL, replace=False)


def _carried_over(path: Path, key: str, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The labels of all nodes, -1 where unknown, and the bits of where each comes from, both `[N]`."""
    arrays, none = read_archive(path), np.empty(0)
    labels, source = (arrays.get(f"{name}_{key}", none) for name in ("labels", "source"))
    if any(each.shape != (num_nodes,) or each.dtype.kind not in "iu" for each in (labels, source)):
        raise ValueError(f"{path.name} must hold labels_{key} and source_{key}, one integer per node. Got others.")
    return labels.astype(np.int64), source
