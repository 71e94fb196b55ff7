"""Features, labels and masks of `Data`, checked as `Graph` checks structure, and digested; `HeteroData` as `Data`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.data.labels import TASKS, are_numbers, check_labels, count_classes, kind_of, labelled_nodes
from gpnn.data.splits import MASKS
from gpnn.data.tables.node_features import SPARSE_BELOW
from gpnn.graph import Graph
from gpnn.graph.convert import edge_weight
from gpnn.graph.edges import check_dense
from gpnn.storage.read import shorten

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData


FIELDS = ("edge_index", "edge_type", "edge_weight", "x", "x_scale", "y", *MASKS, "sample_weight")
WHOLE, NUM_BLOCKS, BLOCK = 1 << 30, 4096, 1 << 16  # bytes up to which all of an array counts; else evenly spaced blocks


def check_data(data: Data | HeteroData, task: str = "auto") -> Data:
    """`data`, validated, with `num_classes` set and `y` in the form of :func:`gpnn.data.labels.check_labels`.

    Where numbers are to be predicted there are no classes, and `data.task` is "regression".

    Features, labels and masks may each be missing. The given object is not changed.

    Args:
        data: `edge_index` `[2, E]`; `x` dense or sparse CSR, floating point, `[N, F]`; `y` integers, -1 where
            the class is unknown, `[N]`, or zeros and ones for C labels per node, `[N, C]`, or numbers, NaN where
            unknown, `[N]`; `train_mask`, `val_mask`, `test_mask` booleans, `[N]`. A `HeteroData` is made one graph
            (:func:`gpnn.data.check.data_from_hetero`).
        task: "classification" or "regression"; "auto": what `data.task` says, else what `y` shows.

    Raises:
        ValueError: naming the constraint and the offending value.

    >>> from torch_geometric.data import Data
    >>> edge_index = torch.tensor([[0, 1], [1, 0]])
    >>> check_data(Data(x=torch.eye(2), edge_index=edge_index, y=torch.tensor([0, 2]))).num_classes
    3
    """
    from torch_geometric.data import Data, HeteroData

    if isinstance(data, HeteroData):
        data = data_from_hetero(data, task)
    if not isinstance(data, Data):
        raise ValueError(f"`data` must be a PyG Data. Got {type(data).__name__}.")
    if not data.num_nodes:
        raise ValueError(f"`data` must have at least one node. Got {data.num_nodes}.")
    Graph.from_data(data)
    checked = check_columns(data, task)
    if data.get("train_mask") is not None and not data.train_mask.any():
        raise ValueError("`train_mask` must pick at least one labelled node. Got none.")
    return checked


def check_columns(data: Data, task: str = "auto") -> Data:
    """What :func:`check_data` gives, of features, labels and masks alone, where some of a graph's nodes may train none.

    Raises:
        ValueError: naming the constraint and the offending value.
    """
    from copy import copy

    _check_features(data.get("x"), data.num_nodes, data.get("x_scale"))
    for name in ("y", *MASKS, "sample_weight"):
        check_dense(name, data.get(name))
    checked = copy(data)
    if data.get("x") is not None and data.x.dtype == torch.bfloat16 and data.x.layout == torch.sparse_csr:
        checked.x = data.x.float()  # sparse features go through numpy, which has no such type
    if data.get("y") is not None:
        given = data.get("task")  # another program's attribute of this name is ignored
        known = given if task == "auto" and isinstance(given, str) and given in TASKS else task
        checked.y = check_labels(data.y, data.num_nodes, known)
    if checked.get("y") is not None and are_numbers(checked.y):
        checked.task = "regression"
        for name in ("num_classes", "class_names"):
            if name in checked:
                del checked[name]
    elif checked.get("y") is not None:
        checked.num_classes = count_classes(checked.y, data.get("num_classes"))
        _check_class_names(data.get("class_names"), checked.num_classes)
    _check_masks(checked)
    if isinstance(data.get("sample_weight"), Tensor):
        checked.sample_weight = check_sample_weight(data.sample_weight, data.num_nodes)
    return checked


def check_sample_weight(weight: Any, num_rows: int) -> Tensor:
    """The weight of each row in the training loss, float32 `[N]`.

    Raises:
        ValueError: when there is not one for each row, one is negative or not finite.
    """
    try:
        checked = weight.float() if isinstance(weight, Tensor) else torch.tensor(np.asarray(weight, np.float32))
    except (TypeError, ValueError):
        raise ValueError(f"`sample_weight` must hold numbers. Got {kind_of(weight)}.") from None
    if checked.shape != (num_rows,):
        raise ValueError(f"`sample_weight` must have shape [{num_rows}]. Got {list(checked.shape)}.")
    wrong = ~(checked.isfinite() & (checked >= 0))
    if wrong.any():
        raise ValueError(f"`sample_weight` must hold finite numbers from 0. Got {checked[wrong][0].item():g}.")
    return checked


def _check_class_names(names: Any, num_classes: int) -> None:
    if names is None:
        return
    if isinstance(names, str | dict) or not hasattr(names, "__len__"):
        raise ValueError(f"`class_names` must be a list of names. Got {type(names).__name__}.")
    if len(names) != num_classes:
        raise ValueError(f"`class_names` must name the {num_classes} classes. Got {len(names)} names.")
    wrong = [name for name in names if name is None or isinstance(name, list | tuple | dict)]
    if wrong:
        raise ValueError(f"`class_names` must hold texts or numbers. Got {shorten(wrong[0])}.")


def _check_features(x: Any, num_nodes: int, scale: Any) -> None:
    if x is None:
        return
    if not isinstance(x, Tensor) or x.layout not in (torch.strided, torch.sparse_csr):
        got = str(x.layout).removeprefix("torch.") if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"`x` must be a dense or sparse CSR tensor (`x.to_sparse_csr()`). Got {got}.")
    if x.dim() != 2:
        raise ValueError(f"`x` must have shape [{num_nodes}, F]. Got {list(x.shape)}.")
    if x.shape[0] != num_nodes:
        raise ValueError(f"`x` must have one row for each of the {num_nodes} nodes. Got {x.shape[0]}.")
    if x.dtype == torch.int8 and scale is not None:
        _check_scale(scale, x.shape[1])
        return
    if not x.is_floating_point():
        other = ", or have `x_scale`" if x.dtype == torch.int8 else ""
        raise ValueError(f"`x` must be floating point (`x.float()`){other}. Got {kind_of(x)}.")
    values = x if x.layout == torch.strided else x.values()
    if values.numel() and not all(bound.float().isfinite() for bound in torch.aminmax(values)):  # no mask of x's size
        _name_infinite(x)


def _check_scale(scale: Any, num_columns: int) -> None:
    """Raise ValueError unless it has what one level of features of 8 bits stands for in each column."""
    if not isinstance(scale, Tensor) or not scale.is_floating_point() or list(scale.shape) != [num_columns]:
        raise ValueError(f"`x_scale` must hold a floating-point number for each of {num_columns} columns. Got {scale}.")
    if not scale.isfinite().all():
        raise ValueError(f"`x_scale` must be finite. Got {scale[~scale.isfinite()][0]}.")


def _name_infinite(x: Tensor) -> None:
    """Raise ValueError that names the first value that is not finite, or not in 32 bits, as models take it."""
    if x.layout == torch.strided:
        node, column = (~x.float().isfinite()).nonzero()[0].tolist()
        value = x[node, column].item()
    else:
        entry = int((~x.values().float().isfinite()).nonzero()[0])
        node = int(torch.searchsorted(x.crow_indices(), entry, right=True)) - 1
        column, value = int(x.col_indices()[entry]), x.values()[entry].item()
    kind = " in 32 bits" if np.isfinite(value) else ""
    raise ValueError(f"`x` must be finite{kind}. Got {value} at node {node}, column {column}.")


def _check_masks(data: Data) -> None:
    masks = {name: data.get(name) for name in MASKS}
    present = {name: mask for name, mask in masks.items() if mask is not None}
    for name, mask in present.items():
        _check_mask(name, mask, data.num_nodes)
    names = list(present)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            both = present[first] & present[second]
            if both.any():
                node = int(both.nonzero()[0])
                raise ValueError(f"`{first}` and `{second}` must not overlap. Got node {node} in both.")
    for name in ("train_mask", "val_mask"):  # test labels may be hidden
        if name in present:
            _check_labelled(name, present[name], data.get("y"))


def _check_mask(name: str, mask: Any, num_nodes: int) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise ValueError(f"`{name}` must be a boolean tensor. Got {kind_of(mask)}.")
    if mask.dim() != 1:
        hint = f" (pick one split: `data.{name}[:, 0]`)" if mask.dim() == 2 else ""
        raise ValueError(f"`{name}` must have shape [{num_nodes}]{hint}. Got {list(mask.shape)}.")
    if len(mask) != num_nodes:
        raise ValueError(f"`{name}` must have one entry for each of the {num_nodes} nodes. Got {len(mask)}.")


def _check_labelled(name: str, mask: Tensor, y: Tensor | None) -> None:
    if y is None:
        raise ValueError(f"`{name}` must come with labels `y`. Got none.")
    unknown = mask & ~labelled_nodes(y)
    if unknown.any():
        name_of = "NaN" if are_numbers(y) else "-1"
        raise ValueError(
            f"`{name}` must pick labelled nodes. Got node {int(unknown.nonzero()[0])}, whose label is {name_of}."
        )


def digest_data(data: Data) -> str:
    """The sha256 of edges, features, labels and masks, in their order, as 64 hexadecimal digits.

    Of an array past one gigabyte its type, its shape and 4,096 blocks of 64 KiB count, evenly spaced: enough to detect
    another dataset, or other rows, in a second; a single changed value may be missed.

    >>> from torch_geometric.data import Data
    >>> one, other = (Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, y])) for y in (0, 1))
    >>> digest_data(one) == digest_data(other)
    False
    """
    digest = hashlib.sha256()
    for name, values in _fields(data).items():
        if values is not None:
            for part in _parts(values):
                digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
                for block in _blocks(part):
                    digest.update(block.numpy().data)
    return digest.hexdigest()


def _fields(data: Data) -> dict[str, Tensor | None]:
    fields = {name: data.get(name) for name in FIELDS}
    graph = data.get("graph")
    if isinstance(graph, Graph) and graph.rows is not None:
        fields |= {"edge_type": graph.edge_type, "edge_weight": graph.edge_weight}
        fields = {"ptr": graph.rows.ptr, "col": graph.rows.col, **fields}
    return fields


def digest_labels(labels: Tensor) -> str:
    """The sha256 of which node is in which subgraph, `[N]`."""
    return hashlib.sha256(labels.numpy().data).hexdigest()


def _parts(values: Tensor) -> tuple[Tensor, ...]:
    if values.layout == torch.sparse_csr:
        return values.crow_indices(), values.col_indices(), values.values()
    return (values,)


def _blocks(values: Tensor) -> Iterator[Tensor]:
    """The bytes of an array, or evenly spaced blocks of them."""
    if not values.numel():
        return
    content = values.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    if len(content) <= WHOLE:
        yield content
        return
    for start in torch.linspace(0, len(content) - BLOCK, NUM_BLOCKS, dtype=torch.float64).long().tolist():
        yield content[start : start + BLOCK]


def data_from_hetero(hetero: HeteroData, task: str = "auto") -> Data:
    """The nodes of all types, one type after the other, in one graph with typed edges (:meth:`gpnn.Graph.from_hetero`).

    The features of each node type have columns of their own, zero for other types, and the last columns say which type
    a node is of; where no type has features there are none. Labels and masks are those of the one node type that has
    `y`; nodes of other types are unlabelled.

    Args:
        hetero: node types with `x` `[N_t, F_t]`, one of them with `y`; edge types with `edge_index`.
        task: what `y` is, as of :func:`gpnn.data.labels.check_labels`.

    Returns:
        `Data` with `node_type` `[N]`, `node_type_names`, `edge_type` `[E]` and `edge_type_names`.

    Raises:
        ValueError: when several node types have `y`, or edges have attributes that are not weights.

    >>> from torch_geometric.data import HeteroData
    >>> hetero = HeteroData({"user": {"x": torch.ones(2, 1), "y": torch.tensor([0, 1])}, "shop": {"num_nodes": 1}})
    >>> hetero["user", "buys", "shop"].edge_index = torch.tensor([[0, 1], [0, 0]])
    >>> data = data_from_hetero(hetero)
    >>> data.y.tolist(), data.x.tolist()
    ([0, 1, -1], [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """
    graph = Graph.from_hetero(hetero)
    for kind in hetero.edge_types:
        check_edge_attributes(hetero[kind], kind)
    data, names = graph.to_data(), hetero.node_types
    sizes = torch.tensor([hetero[name].num_nodes for name in names])
    data.node_type, data.node_type_names = torch.repeat_interleave(torch.arange(len(names)), sizes), list(names)
    data.edge_type_names = [" ".join(kind) for kind in hetero.edge_types]
    x = _features(hetero, data.node_type)
    if x is not None:
        data.x = x
    _add_labels(data, hetero, task)
    return data


def check_edge_attributes(store: Any, kind: tuple[str, str, str] | None = None) -> None:
    """Raise ValueError for an `edge_attr` that no model takes: all but a weight, one floating-point number per edge.

    Args:
        store: a PyG `Data`, or the edges of one kind of a `HeteroData`.
        kind: the kind.
    """
    attributes = store.get("edge_attr")
    if attributes is None or attributes is edge_weight(store):
        return
    of, place = ("", "data") if kind is None else (f" of {kind}", f"data[{kind}]")
    raise ValueError(
        f"`edge_attr`{of} must be a weight, one floating-point number per edge (`del {place}.edge_attr` leaves it out, "
        f"gpnn.nn.Scheduled takes it). Got {kind_of(attributes)} of shape {list(attributes.shape)}."
    )


def _features(hetero: HeteroData, node_type: Tensor) -> Tensor | None:
    """The features of all nodes, `[N, ΣF_t + types]`, dense, or sparse CSR where few are not zero."""
    from scipy.sparse import block_diag, csr_matrix, hstack

    tables = {name: hetero[name].get("x") for name in hetero.node_types}
    if all(x is None for x in tables.values()):
        return None
    blocks = [
        csr_matrix((hetero[name].num_nodes, 0), dtype=np.float32)
        if x is None
        else _block(name, x, hetero[name].num_nodes)
        for name, x in tables.items()
    ]
    if len(blocks) > 1:
        kinds = np.eye(len(blocks), dtype=np.float32)[node_type.numpy()]
        matrix = hstack([block_diag(blocks), csr_matrix(kinds)], "csr")
    else:
        matrix = blocks[0]
    return from_scipy(matrix, sparse=matrix.nnz < SPARSE_BELOW * matrix.shape[0] * matrix.shape[1])


def _block(name: str, x: Any, num_nodes: int) -> Any:
    """The features of one node type as a scipy matrix."""
    from scipy.sparse import csr_matrix

    if not isinstance(x, Tensor) or x.dim() != 2 or x.layout not in (torch.strided, torch.sparse_csr):
        raise ValueError(f"`x` of {name!r} must be a dense or sparse CSR tensor [N, F]. Got {kind_of(x)}.")
    if x.shape[0] != num_nodes:
        raise ValueError(f"`x` of {name!r} must have one row for each of its {num_nodes} nodes. Got {x.shape[0]}.")
    if x.layout == torch.strided:
        return csr_matrix(x.float().numpy())
    return csr_matrix((x.values().float().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()), tuple(x.shape))


def _add_labels(data: Data, hetero: HeteroData, task: str) -> None:
    """Labels `y` and masks of the one node type that has them."""
    labelled = [name for name in hetero.node_types if hetero[name].get("y") is not None]
    if len(labelled) > 1:
        raise ValueError(
            f"One node type must have `y`; leave out the others (`del data[{labelled[-1]!r}].y`). "
            f"Got {', '.join(map(repr, labelled))}."
        )
    for name in labelled:
        store, rows = hetero[name], data.node_type == hetero.node_types.index(name)
        y = check_labels(store.y, store.num_nodes, task)
        data.y = torch.full((data.num_nodes, *y.shape[1:]), float("nan") if are_numbers(y) else -1, dtype=y.dtype)
        data.y[rows] = y
        for mask in MASKS:
            if (values := store.get(mask)) is not None:
                if not isinstance(values, Tensor) or values.dtype != torch.bool or list(values.shape) != [len(y)]:
                    raise ValueError(f"`{mask}` of {name!r} must be booleans, one for each of its {len(y)} nodes.")
                data[mask] = torch.zeros(data.num_nodes, dtype=torch.bool).masked_scatter(rows, values)
