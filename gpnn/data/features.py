"""Feature matrices as torch tensors, dense or sparse CSR, and transforms that fit any dataset."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice
from gpnn.graph import Graph
from gpnn.storage.tensors import map_tensor

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data


SCALES = ("auto", "none", "rows")
MOST_SCALED = 1 << 31  # values, of which a scaled copy takes 8 GiB; those of a larger graph may be in files
PIECE_ROWS = 1 << 18  # of features that are looked at at one time
FEW_ROWS = 1 << 12  # that tell the units of the columns of a larger graph
FAR = 100.0  # times that the sizes of two columns differ which measure different things
SHIFTED = 10.0  # deviations that the mean of a column without zeros is from zero
TYPED: Literal["typed"] = "typed"  # reverses as types of their own
DIRECTIONS: Literal["directions"] = "directions"  # as the other one of two types; those that were given count as one
Undirected = bool | Literal["typed", "directions"]


def transform_data(data: Data, *, undirected: Undirected = False, scale_features: str = "none") -> Data:
    """A shallow copy of `data` with the transforms applied.

    Args:
        data: any dataset.
        undirected: add the reverse of every edge and keep each distinct edge once; or "typed": add the reverse of every
            edge as an edge of another type, so that its direction is still known; or "directions": the same, where all
            types that were given count as one.
        scale_features: "none", or "rows": the absolute values of each row sum to one (empty rows stay empty), or
            "auto": as :func:`choose_scale` has it.

    Raises:
        ValueError: when the scale is unknown.
    """
    check_choice("scale_features", scale_features, SCALES)
    scale_features = choose_scale(data.get("x")) if scale_features == "auto" else scale_features
    if not undirected and scale_features == "none":
        return data
    data = copy(data)  # not clone(), which would go through long lists of names
    if undirected:
        given = Graph.from_data(data)
        if undirected == DIRECTIONS:
            given = replace(given, edge_type=None)
        if undirected in (TYPED, DIRECTIONS):
            graph, origin = given.with_reverse_types(), torch.arange(given.num_edges).repeat(2)
        else:
            graph, origin = given.with_reverses()
        data.edge_index = torch.stack([graph.src, graph.dst])
        if "graph" in data:
            del data.graph  # the rows before
        if data.get("edge_weight") is None and graph.edge_weight is not None:
            del data.edge_attr  # the weights of the edges before
        elif isinstance(data.get("edge_attr"), Tensor):
            data.edge_attr = data.edge_attr[origin]
        for name, values in (("edge_type", graph.edge_type), ("edge_weight", graph.edge_weight)):
            if values is not None:
                data[name] = values
    if scale_features == "rows" and (x := float_features(data)) is not None:
        data.x = scale_rows(x)
        if "x_scale" in data:
            del data.x_scale
    return data


def choose_scale(x: Tensor | None) -> Literal["none", "rows"]:
    """ "rows" for counts and shares, of which none is negative; "none" for measurements, whose magnitude would be lost.

    Measurements have negative values, or columns of different units (:func:`have_units`).

    A single column is left as it is: scaled, it would be 1 for every node. Scaled rows have no negative values where
    the others had none, so that the choice stays the same. Of more than `MOST_SCALED` values no copy is made.

    >>> choose_scale(torch.tensor([[1.0, 3.0]])), choose_scale(torch.tensor([[1.0, -3.0]]))
    ('rows', 'none')
    """
    if x is None or x.shape[1] == 1:
        return "none"
    values = x if x.layout == torch.strided else x.values()
    if values.numel() > MOST_SCALED:
        return "none"
    pieces = values.split(PIECE_ROWS) if values.numel() else ()
    if any(bool(piece.min() < 0) for piece in pieces):  # the first piece tells most often
        return "none"
    return "none" if have_units(x) else "rows"


class Moments(NamedTuple):
    """Mean and deviation of each column, `[F]`; the deviation of a column that is the same everywhere is 1."""

    mean: Tensor
    deviation: Tensor


def column_moments(x: Tensor) -> Moments:
    """The moments of the columns of dense features, `[N, F]`; of a large graph of some of its rows.

    >>> column_moments(torch.tensor([[90.0, 1.0], [110.0, 1.0]])).deviation
    tensor([10.,  1.])
    """
    values = _some_rows(x)
    deviation = values.std(0, correction=0)
    return Moments(values.mean(0).float(), torch.where(deviation > 0, deviation, 1.0).float())


def have_units(x: Tensor | None) -> bool:
    """Whether features are dense, and their columns so different that each must have a unit of its own.

    Their sizes, the mean of what is not zero, differ by more than a hundred times, or one without zeros is far from
    zero for what it varies, as a year is.

    >>> have_units(torch.tensor([[1990.0, 0.5], [2010.0, 0.1]])), have_units(torch.tensor([[0.0, 1.0], [3.0, 1.0]]))
    (True, False)
    """
    if x is None or x.layout != torch.strided or not x.is_floating_point() or min(x.shape) < 1:
        return False
    values = _some_rows(x)
    deviation, zeros = values.std(0, correction=0), (values == 0).sum(0)
    varies = deviation > 0
    size = (values.abs().sum(0) / (len(values) - zeros).clamp(min=1))[varies]
    shifted = varies & (zeros == 0) & (values.mean(0).abs() > SHIFTED * deviation)
    return bool(shifted.any()) or (len(size) > 0 and bool(size.max() > FAR * size.min()))


def _some_rows(x: Tensor) -> Tensor:
    """At most `PIECE_ROWS` rows, or `FEW_ROWS` where they may be in files, evenly taken, float64."""
    most = FEW_ROWS if x.numel() > MOST_SCALED else PIECE_ROWS
    return x[:: -(-len(x) // most)].double()


def feature_scale(data: Data) -> Tensor | None:
    """What one level of features of 8 bits stands for in each column, `[F]`; None where features are no int8."""
    x = data.get("x")
    return None if x is None or x.dtype != torch.int8 else data.get("x_scale")


def float_features(data: Data) -> Tensor | None:
    """The features in their own units, `[N, F]`: those of 8 bits in float32.

    >>> from torch_geometric.data import Data
    >>> float_features(Data(x=torch.tensor([[2, 4]], dtype=torch.int8), x_scale=torch.tensor([0.5, 1.0]))).tolist()
    [[1.0, 4.0]]
    """
    scale = feature_scale(data)
    return data.get("x") if scale is None else data.x.float().mul_(scale)


def scale_rows(x: Tensor) -> Tensor:
    """Each row divided by the sum of its absolute values, `[N, F]`, dense or sparse CSR as it came.

    >>> scale_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    if x.dtype in (torch.float16, torch.bfloat16):  # whose sums overflow at once
        x = x.float()
    if x.layout == torch.strided:
        total = x.abs().sum(dim=1, keepdim=True)
        return _divide(x, total) if total.isfinite().all() else _divide(x.double(), x.double().abs().sum(1, True)).to(x)
    ptr, values = x.crow_indices(), x.values()
    row = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), ptr.diff())
    total = values.new_zeros(x.shape[0]).index_add_(0, row, values.abs())
    if not total.isfinite().all():
        values = values.double()
        total = values.new_zeros(x.shape[0]).index_add_(0, row, values.abs())
    scaled = _divide(values, total[row]).to(x.dtype)
    return csr_tensor(ptr.numpy(), x.col_indices().numpy(), scaled.numpy(), (x.shape[0], x.shape[1]))


def row_sums(x: Tensor) -> Tensor:
    """The sum of the absolute values of each row, float64 `[N]`, of dense or sparse CSR features.

    >>> row_sums(torch.tensor([[1.0, -3.0], [0.0, 0.0]])).tolist()
    [4.0, 0.0]
    """
    if x.layout == torch.strided:
        return x.abs().sum(1, dtype=torch.float64)
    row = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), x.crow_indices().diff())
    return torch.zeros(x.shape[0], dtype=torch.float64, device=x.device).index_add_(0, row, x.values().abs().double())


def _divide(values: Tensor, total: Tensor) -> Tensor:
    return values / torch.where(total > 0, total, 1.0)


def csr_tensor(ptr: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Tensor:
    """A torch sparse CSR tensor over the given arrays, which it shares; indices are int32 where they fit.

    Args:
        ptr: where each row begins, `[N + 1]`.
        columns: column of each entry, `[nnz]`; rising within a row where the tensor's rows are read.
        values: each entry, `[nnz]`.
        shape: `(N, F)`.
    """
    narrow = max(len(columns), *shape) <= np.iinfo(np.int32).max
    index = np.int32 if narrow else np.int64
    starts, ids = (torch.from_numpy(each.astype(index, copy=False)) for each in (ptr, columns))
    return _csr(starts, ids, torch.from_numpy(values), shape)


def slice_rows(x: Tensor, rows: slice) -> Tensor:
    """Some of the rows of a dense or sparse tensor without gradients, in its memory; it does not keep `x` alive.

    >>> x = csr_tensor(np.array([0, 1, 2]), np.array([0, 1]), np.ones(2), (2, 2))
    >>> slice_rows(x, slice(1, 2)).to_dense().tolist()
    [[0.0, 1.0]]
    """
    x = x.detach()
    if x.layout == torch.strided:
        return _alias(x[rows])
    x = x if x.layout == torch.sparse_csr else x.to_sparse_csr()
    ptr = x.crow_indices()[rows.start : rows.stop + 1]
    entries = slice(int(ptr[0]), int(ptr[-1]))
    columns, values = (_alias(each[entries]) for each in (x.col_indices(), x.values()))
    return _csr(ptr - ptr[0], columns, values, (len(ptr) - 1, x.shape[1]))


def _alias(part: Tensor) -> Tensor:
    """The same memory as a tensor of its own: a view would hold the tensor that it is a view of."""
    return part.new_empty(0).set_(part.untyped_storage(), part.storage_offset(), part.shape, part.stride())


def _csr(ptr: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        # torch warns once per process that CSR is in beta and that indices are not checked
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(ptr, columns, values, shape)


def from_scipy(matrix: scipy.sparse.csr_matrix, *, sparse: bool, normalize: bool = False) -> Tensor:
    """A scipy matrix as float32 features, sparse CSR or dense, rows divided by their sums with `normalize`."""
    matrix = matrix.astype(np.float32)
    if normalize:
        matrix = _normalize_rows(matrix)
    if not sparse:
        return torch.from_numpy(matrix.toarray())
    matrix.sum_duplicates()
    matrix.sort_indices()
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape)


def _normalize_rows(matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Rows that sum to one; a row of zeros stays."""
    matrix = matrix.copy()
    sums = np.asarray(matrix.sum(axis=1), np.float32).ravel()
    scale = np.divide(1, sums, out=np.zeros_like(sums), where=sums != 0)
    matrix.data *= np.repeat(scale, np.diff(matrix.indptr))
    return matrix


def map_features(x: Tensor, folder: Path | str) -> Tensor:
    """The same features, `[N, F]`, their values in files under `folder` that vanish with the tensor."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    if x.layout == torch.strided:
        return map_tensor(x.contiguous(), folder)
    if x.layout != torch.sparse_csr:
        raise ValueError(f"Features in files must be dense or sparse CSR. Got {x.layout}.")
    columns, values = (map_tensor(part, folder).numpy() for part in (x.col_indices(), x.values()))
    return csr_tensor(x.crow_indices().numpy(), columns, values, (x.shape[0], x.shape[1]))
