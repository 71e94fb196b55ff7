"""Labels of nodes, checked: one class a node, or any number of C labels a node."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MOST_CLASSES = 1_000_000  # a score for each is kept of every node


def check_labels(y: Any, num_nodes: int) -> Tensor:
    """The labels in the form that training takes: classes `[N]` int64, or zeros and ones `[N, C]` float32.

    Either has -1 where a node is unlabelled (all along its row). More than one column means multi-label.

    Args:
        y: classes, whole numbers `[N]` or `[N, 1]`, -1 or NaN where unknown; or labels, zeros and ones of any type
            `[N, C]`, with a row of -1 or NaN where a node is unlabelled.
        num_nodes: N.

    Raises:
        ValueError: naming the constraint and the offending value.

    >>> check_labels(torch.tensor([[True, True], [False, False]]), 2).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] > 1 and not y.is_complex():
        return _check_multi_label(y, num_nodes)
    return _check_classes(y, num_nodes)


def count_classes(y: Tensor, num_classes: Any = None) -> int:
    """The number of classes of checked labels: the given one, found to fit, or what the labels show.

    Raises:
        ValueError: when the given number does not fit.
    """
    found = y.shape[1] if y.dim() == 2 else int(y.max()) + 1
    if num_classes is None:
        return found
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 1:
        raise ValueError(f"`num_classes` must be an integer of at least 1. Got {num_classes!r}.")
    if y.dim() == 2 and num_classes != found:
        raise ValueError(f"`num_classes` must be the {found} columns of `y`. Got {num_classes}.")
    if found > num_classes:
        node = int((y == found - 1).nonzero()[0])
        raise ValueError(f"`y` must hold classes below {num_classes}. Got {found - 1} at node {node}.")
    return num_classes


def labelled_nodes(y: Tensor) -> Tensor:
    """Which nodes have a label, bool `[N]`, of classes `[N]` or labels `[N, C]`.

    >>> labelled_nodes(torch.tensor([[0.0, 1.0], [-1.0, -1.0]])).tolist()
    [True, False]
    """
    return y >= 0 if y.dim() == 1 else (y >= 0).all(1)


def _check_classes(y: Any, num_nodes: int) -> Tensor:
    if not isinstance(y, Tensor) or y.is_complex() or y.dtype == torch.bool:
        got = str(y.dtype).removeprefix("torch.") if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"`y` must hold integer classes, -1 where unknown. Got {got}.")
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.is_floating_point():
        y = _whole_numbers(y)
    if y.dim() != 1:
        raise ValueError(
            f"`y` must have shape [{num_nodes}], one class a node, or [{num_nodes}, C], C labels a node. "
            f"Got {list(y.shape)}."
        )
    if len(y) != num_nodes:
        raise ValueError(f"`y` must have one class for each of the {num_nodes} nodes. Got {len(y)}.")
    if int(y.min()) < -1:
        node = int((y < -1).nonzero()[0])
        raise ValueError(f"`y` must hold classes from 0, -1 where unknown. Got {int(y[node])} at node {node}.")
    if int(y.max()) >= MOST_CLASSES:
        node = int((y >= MOST_CLASSES).nonzero()[0])
        raise ValueError(
            f"`y` must hold classes below {MOST_CLASSES:,}, numbered without gaps. Got {int(y[node])} at node {node}."
        )
    return y.long()


def _whole_numbers(y: Tensor) -> Tensor:
    """Whole floating-point numbers as integers, -1 where they are NaN."""
    y = y.double().nan_to_num(nan=-1.0, posinf=float("inf"), neginf=float("-inf"))
    wrong = (y != y.floor()) | y.isinf()
    if wrong.any():
        place = int(wrong.flatten().nonzero()[0])
        raise ValueError(
            "`y` must hold classes, whole numbers from 0, -1 or NaN where unknown; regression is not supported yet. "
            f"Got {y.flatten()[place].item():.6g} at node {place}."
        )
    return y.clamp(-(2.0**52), 2.0**52).long()


def _check_multi_label(y: Tensor, num_nodes: int) -> Tensor:
    if len(y) != num_nodes:
        raise ValueError(f"`y` must have one row of labels for each of the {num_nodes} nodes. Got {len(y)}.")
    labels = y.to(torch.float32, copy=True)
    unknown = labels.isnan() | (labels == -1)
    wrong = ~(unknown | (labels == 0) | (labels == 1))
    if wrong.any():
        node, label = wrong.nonzero()[0].tolist()
        raise ValueError(
            "`y` of several columns must hold zeros and ones, -1 or NaN where a node is unlabelled. "
            f"Got {y[node, label].item()} at node {node}, label {label}."
        )
    partly = unknown & ~unknown.all(1, keepdim=True)
    if partly.any():
        node, label = partly.nonzero()[0].tolist()
        raise ValueError(
            "`y` must know all labels of a node or none. "
            f"Got {y[node, label].item()} beside known labels at node {node}, label {label}."
        )
    return labels.masked_fill_(unknown, -1.0)
