"""Graphs of other kinds: shops, social networks, web pages; each one archive of arrays, `kinds/NAME.npz`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.data.features import from_scipy
from gpnn.data.files import named_reader
from gpnn.data.labels import are_numbers
from gpnn.data.splits import Split, split_fractions, split_per_class, strata
from gpnn.data.tables.binary import read_archive
from gpnn.graph import Graph

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data

PER_CLASS, VAL_PER_CLASS = 20, 30  # labelled nodes that train and validate where a split is drawn class by class
DRAWN = ("per_class", "fractions")
LAYOUT = "edge_index [2, E], x_indptr, x_indices, x_shape, x_data (or all ones), y, and train_masks … [S, N]"
LOGARITHMS = ("views", "monthly_views")  # targets that span orders of magnitude
NUMBERS = ("days", *LOGARITHMS)
_GRAPH_DATA = "github.com/EdisonLeeeee/GraphData at f8022c2"
_MUSAE = f"MUSAE (Rozemberczki et al. 2021), mirrored in {_GRAPH_DATA}"
_HETEROPHILOUS = "github.com/yandex-research/heterophilous-graphs at a431395"


class Kind(NamedTuple):
    """A graph of the folder `kinds`."""

    description: str
    source: str
    target: str = "y"  # the array of the archive that is predicted


KINDS = {
    "amazon_cs": Kind("Computers bought together at Amazon, words of their reviews; 10 classes.", _GRAPH_DATA),
    "blogcatalog": Kind("Bloggers who follow each other, tags of their posts; 6 classes.", _GRAPH_DATA),
    "flickr": Kind("Photographers who follow each other, tags of their pictures; 9 classes.", _GRAPH_DATA),
    "facebook_pages": Kind("Pages that like each other, words of their descriptions; 4 classes.", _MUSAE),
    "chameleon_filtered": Kind("Wikipedia pages without duplicates; 5 classes of traffic.", _HETEROPHILOUS),
    "texas": Kind("Web pages of a university that link to each other; 5 classes.", _HETEROPHILOUS),
    "cornell": Kind("Web pages of a university that link to each other; 5 classes.", _HETEROPHILOUS),
    "wisconsin": Kind("Web pages of a university that link to each other; 5 classes.", _HETEROPHILOUS),
    "wiki_chameleon": Kind("Wikipedia pages; the logarithm of their visitors in a month.", _MUSAE, "monthly_views"),
    "twitch_de": Kind("Streamers who are friends, and their games.", _MUSAE, "mature"),
}


def kind_file(name: str) -> str:
    """The path under the data folder of a graph's archive."""
    return f"kinds/{name}.npz"


def read_kind(name: str, root: Path, *, split: int | str | None = None, seed: int = 0, sparse: bool = True) -> Data:
    """A graph of `KINDS`, every link in both directions and once; views are predicted as their logarithm.

    Args:
        name: the graph.
        root: the data folder, with the archive `kinds/NAME.npz`.
        split: the number of a split of the archive, or "per_class" (20 training and 30 validation nodes of each class,
            the rest tests), or "fractions" (60, 20 and 20 % of each class); None: the archive's first split, or where
            it has none "per_class", or "fractions" for numbers.
        seed: the draw of a split that the archive does not have.
        sparse: features as a sparse CSR tensor rather than dense.

    Raises:
        ValueError: when the archive is missing or damaged, or does not have the split.
    """
    return _read_target(name, KINDS[name].target, root, split, seed, sparse=sparse)


def _read_target(name: str, target: str, root: Path, split: int | str | None, seed: int, *, sparse: bool) -> Data:
    from torch_geometric.data import Data

    if not (root / kind_file(name)).is_file():
        raise ValueError(missing_kind(name, root))
    arrays = read_archive(root / kind_file(name))
    features = _features(arrays, name)
    y = _labels(arrays, name, target, features.shape[0])
    data = Data(
        x=from_scipy(features, sparse=sparse),
        edge_index=_edges(arrays, name, features.shape[0]),
        y=y,
        **_split(arrays, name, y, split, seed)._asdict(),
    )
    if are_numbers(y):
        data.task = "regression"
    elif target == "y" and "class_names" in arrays:
        data.class_names = [str(each) for each in arrays["class_names"]]
    return data


def missing_kind(name: str, root: Path) -> str:
    """The sentence on an archive that is not there: where its graph comes from, and the layout."""
    return (
        f"{name} must be in {root / kind_file(name)}, an archive of the arrays {LAYOUT}, made from "
        f"{KINDS[name].source}: it has no copy to fetch. Got no such file."
    )


def twitch_de(
    root: Path, *, target: str = "mature", split: int | str | None = None, seed: int = 0, sparse: bool = True
) -> Data:
    """Streamers who are friends, and their games; `target` mature, partner (classes), views or days (numbers)."""
    check_choice("target", target, ("mature", "partner", "views", "days"))
    return _read_target("twitch_de", target, root, split, seed, sparse=sparse)


KIND_READERS = {name: named_reader(read_kind, name, kind.description) for name, kind in KINDS.items()}
KIND_READERS["twitch_de"] = twitch_de


def _features(arrays: dict[str, np.ndarray], name: str) -> scipy.sparse.csr_matrix:
    from scipy.sparse import csr_matrix

    indptr, columns, shape = (_array(arrays, name, part, "iu", 1) for part in ("x_indptr", "x_indices", "x_shape"))
    data = _array(arrays, name, "x_data", "iuf", 1) if "x_data" in arrays else np.ones(len(columns), np.float32)
    if len(shape) != 2 or len(indptr) != int(shape[0]) + 1 or int(shape[1]) < 1:
        raise ValueError(f"{name}: `x_shape` must fit the {len(indptr) - 1} rows of x_indptr. Got {shape.tolist()}.")
    try:
        matrix = csr_matrix((data, columns.astype(np.int64), indptr.astype(np.int64)), tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name}: the features must be rows in CSR format. Got: {error}.") from None
    return matrix


def _labels(arrays: dict[str, np.ndarray], name: str, target: str, num_nodes: int) -> Tensor:
    """Classes from 0, or float64 numbers, `[N]`."""
    values = _array(arrays, name, target, "iuf" if target in NUMBERS else "iu", 1)
    if len(values) != num_nodes:
        raise ValueError(
            f"{name}: `{target}` must have one value for each of the {num_nodes} nodes. Got {len(values)}."
        )
    if target not in NUMBERS:
        return torch.from_numpy(values.astype(np.int64) - max(int(values.min()), 0))  # some count classes from 1
    if target in LOGARITHMS and not values.min() > 0:
        raise ValueError(f"{name}: `{target}` must be greater than 0. Got {values.min()}.")
    return torch.from_numpy((np.log(values) if target in LOGARITHMS else values).astype(np.float64))


def _edges(arrays: dict[str, np.ndarray], name: str, num_nodes: int) -> Tensor:
    pair = _array(arrays, name, "edge_index", "iu", 2)
    if len(pair) != 2:
        raise ValueError(f"{name}: `edge_index` must have shape [2, E]. Got {list(pair.shape)}.")
    src, dst = torch.from_numpy(pair.astype(np.int64))
    graph = Graph(src, dst, num_nodes).to_undirected()
    return torch.stack([graph.src, graph.dst])


def _split(arrays: dict[str, np.ndarray], name: str, y: Tensor, split: int | str | None, seed: int) -> Split:
    if split is None:
        split = 0 if "train_masks" in arrays else "fractions" if are_numbers(y) else "per_class"
    if split == "fractions":
        return split_fractions(strata(y), seed=seed)
    if split == "per_class" and not are_numbers(y):
        return _split_each_class(y, seed)
    count = len(arrays.get("train_masks", ()))
    choices = [*range(count), *(DRAWN[1:] if are_numbers(y) else DRAWN)]
    check_choice("split", split, choices)
    masks = [_array(arrays, name, f"{part}_masks", "b", 2) for part in ("train", "val", "test")]
    if any(each.shape != (count, len(y)) for each in masks):
        shapes = ", ".join(str(list(each.shape)) for each in masks)
        raise ValueError(f"{name}: the masks must have one shape, [S, {len(y)}]. Got {shapes}.")
    return Split(*(torch.from_numpy(each[int(split)].copy()) for each in masks))


def _split_each_class(y: Tensor, seed: int) -> Split:
    """20 nodes of each class to train, 30 to validate, the rest to test."""
    train = split_per_class(y, per_class=PER_CLASS, num_val=0, seed=seed).train_mask
    rest = split_per_class(y.masked_fill(train, -1), per_class=VAL_PER_CLASS, num_val=0, seed=seed)
    return Split(train, rest.train_mask, rest.test_mask)


def _array(arrays: dict[str, np.ndarray], name: str, part: str, kinds: str, dim: int) -> np.ndarray:
    """An array of the archive, of the expected type and number of dimensions."""
    found = arrays.get(part)
    if found is None or found.dtype.kind not in kinds or found.ndim != dim or not found.size:
        got = "none" if found is None else f"{found.dtype} of shape {list(found.shape)}"
        raise ValueError(f"{name}: the archive must hold `{part}` ({LAYOUT}). Got {got}.")
    return found
