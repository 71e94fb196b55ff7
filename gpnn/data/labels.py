"""Labels of nodes, checked: one class per node, any number of C labels per node, or one number per node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_choice, check_count

if TYPE_CHECKING:
    import pyarrow

MOST_CLASSES = 1_000_000  # one score per class and node is kept
SPARE = 10_000  # classes, with and without nodes, that any graph may name
NO_LABEL = ("", "-1", "nan")  # as text, in any case
FEW = 20  # classes that any graph may have
TASKS = ("auto", "classification", "regression")
NUMBERS_HINT = "continuous numbers are for GPNNRegressor, or data.task=regression"


def check_labels(y: Any, num_nodes: int, task: str = "auto") -> Tensor:
    """The labels in the form that training uses, which shows the task.

    Classes are int64 `[N]`, and several labels per node zeros and ones, float32 `[N, C]`; either has -1 where a node is
    unlabelled (all along its row). Numbers to predict are float64 `[N]`, NaN where unknown.

    Args:
        y: classes, whole numbers `[N]` or `[N, 1]`, -1 or NaN where unknown; or labels, zeros and ones of any type
            `[N, C]`, with a row of -1 or NaN where a node is unlabelled; or numbers, `[N]` or `[N, 1]`, NaN where
            unknown (-1 is a number).
        num_nodes: N.
        task: "classification", "regression", or "auto": a regression where a number is not whole.

    Raises:
        ValueError: naming the constraint and the offending value.

    >>> check_labels(torch.tensor([[True, True], [False, False]]), 2).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    check_choice("task", task, TASKS)
    if isinstance(y, Tensor) and y.dim() == 2 and y.shape[1] > 1 and not y.is_complex():
        if task == "regression":
            raise ValueError(f"`y` of a regression must have one number per node. Got {y.shape[1]} columns.")
        return _check_multi_label(y, num_nodes)
    if task == "regression" or (task == "auto" and _has_fractions(y)):
        return _check_numbers(y, num_nodes)
    return _check_classes(y, num_nodes)


def are_numbers(y: Tensor) -> bool:
    """Whether checked labels are numbers to predict, rather than classes."""
    return y.dim() == 1 and y.is_floating_point()


def count_classes(y: Tensor, num_classes: Any = None) -> int:
    """The number of classes of checked labels: the given one, found to fit, or what the labels show.

    Raises:
        ValueError: when the given number does not fit.
    """
    found = y.shape[1] if y.dim() == 2 else int(y.max()) + 1
    if num_classes is None:
        return found
    num_classes, most = check_count("num_classes", num_classes), max(found, len(y), SPARE)
    if num_classes > most:  # a count of a few bytes must not decide on the size of a model
        raise ValueError(f"`num_classes` must be at most {most:,} for {len(y):,} nodes. Got {num_classes:,}.")
    if y.dim() == 2 and num_classes != found:
        raise ValueError(f"`num_classes` must be the {found} columns of `y`. Got {num_classes}.")
    if found > num_classes:
        node = int((y == found - 1).nonzero()[0])
        raise ValueError(f"`y` must hold classes below {num_classes}. Got {found - 1} at node {node}.")
    return num_classes


def labelled_nodes(y: Tensor) -> Tensor:
    """Which nodes have a label, bool `[N]`, of classes `[N]`, labels `[N, C]` or numbers `[N]`.

    >>> labelled_nodes(torch.tensor([[0.0, 1.0], [-1.0, -1.0]])).tolist()
    [True, False]
    """
    if are_numbers(y):
        return ~y.isnan()
    return y >= 0 if y.dim() == 1 else (y >= 0).all(1)


def kind_of(value: Any) -> str:
    """What an error calls a value: the dtype of a tensor, else the name of the type.

    >>> kind_of(torch.ones(1)), kind_of([1])
    ('float32', 'list')
    """
    return str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else type(value).__name__


def _check_classes(y: Any, num_nodes: int) -> Tensor:
    if not isinstance(y, Tensor) or y.is_complex() or y.dtype == torch.bool:
        raise ValueError(f"`y` must hold integer classes, -1 where unknown. Got {kind_of(y)}.")
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.is_floating_point():
        y = _whole_numbers(y)
    if y.dim() != 1:
        raise ValueError(
            f"`y` must have shape [{num_nodes}], one class per node, or [{num_nodes}, C], C labels per node. "
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
            f"`y` must hold classes, whole numbers from 0, -1 or NaN where unknown; {NUMBERS_HINT}. "
            f"Got {y.flatten()[place].item():.6g} at node {place}."
        )
    return y.clamp(-(2.0**52), 2.0**52).long()


def _has_fractions(y: Any) -> bool:
    """Whether a finite number is not whole."""
    if not isinstance(y, Tensor) or not y.is_floating_point():
        return False
    return bool((y.isfinite() & (y != y.floor())).any())


def _check_numbers(y: Any, num_nodes: int) -> Tensor:
    if not isinstance(y, Tensor) or y.is_complex() or y.dtype == torch.bool:
        raise ValueError(f"`y` of a regression must hold numbers, NaN where unknown. Got {kind_of(y)}.")
    if y.numel() != num_nodes or y.dim() not in (1, 2):
        raise ValueError(f"`y` must have one number for each of the {num_nodes} nodes. Got shape {list(y.shape)}.")
    numbers = y.flatten().double()
    if numbers.isinf().any():
        node = int(numbers.isinf().nonzero()[0])
        raise ValueError(f"`y` must hold finite numbers, NaN where unknown. Got {numbers[node].item()} at node {node}.")
    return numbers


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


def is_unlabelled(value: Any) -> bool:
    """Whether a value stands for no label: None, NaN, pandas's NA, -1, or the text "", "-1" or "nan".

    >>> [is_unlabelled(value) for value in (None, float("nan"), -1, "", "NaN", 0, "none")]
    [True, True, True, True, True, False, False]
    """
    if value is None or isinstance(value, str):
        return value is None or value.strip().lower() in NO_LABEL
    try:
        return bool(value == -1 or value != value)
    except TypeError:  # pandas's NA is neither equal to anything nor unequal
        return True


def is_missing(value: Any) -> bool:
    """Whether a value stands for no number: as :func:`is_unlabelled`, but -1 is one.

    >>> [is_missing(value) for value in (None, float("nan"), "", -1, "-1")]
    [True, True, True, False, False]
    """
    return is_unlabelled(value) and str(value).strip() not in ("-1", "-1.0")


def find_fractions(names: Iterable[Any]) -> list[Any]:
    """Those that are not whole, where all names are numbers, written as text or not; else none.

    >>> find_fractions(["2.5", "3"]), find_fractions(["2.5", "red"])
    (['2.5'], [])
    """
    odd = []
    for name in names:
        try:
            number = float(name)
        except (ValueError, TypeError, OverflowError):
            return []
        if not (math.isfinite(number) and number.is_integer()):
            odd.append(name)
    return odd


def check_names(names: Iterable[Any], where: str) -> None:
    """Raise ValueError where all names are numbers, written as text or not, and one is not a whole number.

    Args:
        names: the distinct labels.
        where: what holds them, for the error.

    >>> check_names(["2.5", "red"], "`y`")
    """
    odd = find_fractions(names)
    if odd:
        shown = ", ".join(str(name)[:20] for name in odd[:3]) + (", …" if len(odd) > 3 else "")
        raise ValueError(
            f"{where} must hold classes, which are words or whole numbers; {NUMBERS_HINT}. "
            f"Got {len(odd):,} different numbers that are not whole: {shown}."
        )


def join_labels(chosen: Tensor, names: Sequence[Any]) -> pyarrow.Array:
    """The names of each row's labels as one text, `[N]`; "" where it has none.

    >>> join_labels(torch.tensor([[1, 0, 1], [0, 0, 0]]), ["art", "law", "tea"]).to_pylist()
    ['art; tea', '']
    """
    import pyarrow
    from pyarrow import compute

    chosen = chosen.bool()
    ends = pyarrow.array(np.concatenate([[0], chosen.sum(1).cumsum(0).numpy()]), pyarrow.int32())
    named = pyarrow.array([str(name) for name in names]).take(pyarrow.array(chosen.nonzero()[:, 1].numpy()))
    return compute.binary_join(pyarrow.ListArray.from_arrays(ends, named), "; ")


def check_trainable(y: Tensor, names: Sequence[Any] | np.ndarray | None = None) -> None:
    """Raise ValueError where labels cannot train a model: there are none, or almost every class is different.

    Nodes share classes. More than 20 classes, more than half as many as labelled nodes, count as measurements or
    ids, unless few nodes are labelled at all (under a tenth) with numbers close together (a range of at most four times
    their count) or words: a task with one example per class.

    Args:
        y: checked labels.
        names: what the classes stand for, or None where they are their numbers.
    """
    known = labelled_nodes(y)
    count = int(known.sum())
    if not count:
        raise ValueError(f"A training needs labels. Got none: all {len(y):,} are empty, NaN or -1.")
    if y.dim() == 2:
        return
    if are_numbers(y):
        if float(y[known].min()) == float(y[known].max()):
            raise ValueError(f"A regression needs numbers that differ. Got {float(y[known][0]):g} alone.")
        return
    found = y[known].unique().numpy()
    if len(found) <= FEW or 2 * len(found) <= count:
        return
    if 10 * count > len(y) or _far_apart(found if names is None else np.asarray(names)[found]):
        raise ValueError(
            f"Labels must be classes that nodes share; {NUMBERS_HINT}. "
            f"Got {len(found):,} different labels on {count:,} labelled nodes."
        )


def _far_apart(values: np.ndarray) -> bool:
    return values.dtype.kind in "iuf" and float(values.max()) - float(values.min()) >= 4 * len(values)
