"""NELL: entities and relations of a knowledge graph (Carlson et al., 2010; the paper, section 5.2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.data.files import RECOVERED_LABELS, require
from gpnn.data.planetoid import NUM_VAL, SUFFIXES, Parts, read_parts
from gpnn.data.tables.binary import read_archive

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data

RATES = ("0.1", "0.01", "0.001")
THIS_RATE, OTHER_TEST = 1 | 2, 4  # bits of `source_*`: known at this rate, a test label of another rate


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
