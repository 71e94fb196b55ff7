"""A trained model from what a file holds of it: only sizes that its weights bear out are allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gpnn.nn.models import NodeModel, build_model
from gpnn.storage.read import shorten

LEAST_BOUND = 10_000  # sizes up to here are believed without weights to bear them out


def restore_model(arguments: Any, weights: Mapping[str, Tensor], source: str) -> NodeModel:
    """The model of `arguments` with these weights.

    It is first sketched without memory and compared with the weights, so that a file that declares a model of a
    terabyte costs nothing.

    Args:
        arguments: as the file holds them; :func:`gpnn.nn.models.build_model` takes them.
        weights: by name.
        source: the file, for the sentence.

    Raises:
        ValueError: when arguments and weights do not fit each other, or a weight is not finite.
    """
    if not isinstance(arguments, Mapping):
        raise ValueError(f"{source} must describe a model. Got {shorten(arguments)}.")
    _check_sizes(arguments, max(LEAST_BOUND, sum(tensor.numel() for tensor in weights.values())), source)
    try:
        with torch.device("meta"):
            sketch = build_model(arguments)
    except (TypeError, ValueError, RuntimeError, AttributeError, LookupError, OverflowError) as error:
        raise ValueError(f"{source} must describe a model. Got: {shorten(error, 200)}.") from None
    if _shapes(sketch.state_dict()) != _shapes(weights):
        raise ValueError(f"{source} must hold the weights of the model it describes. Got others.")
    infinite = [name for name, tensor in weights.items() if not bool(tensor.isfinite().all())]
    if infinite:
        raise ValueError(f"{source} must hold finite weights. Got a number that is not finite in {infinite[0]}.")
    model = build_model(arguments)
    model.load_state_dict(weights)
    return model


def _check_sizes(value: Any, most: int, source: str, name: str = "the model") -> None:
    """Raise ValueError for an integer, however deep, beyond what this many weights can bear out."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key != "seed":
                _check_sizes(entry, most, source, key)
    elif isinstance(value, list | tuple):
        for entry in value:
            _check_sizes(entry, most, source, name)
    elif isinstance(value, int | float) and not -most <= value <= most:
        raise ValueError(
            f"`{name}` of {source} must be at most {most}, by the size of its weights. Got {shorten(value)}."
        )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[list[int], torch.dtype]]:
    return {name: (list(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
