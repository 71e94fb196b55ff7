"""Checkpoint: how far a training is and its best weights, in one file; and models restored from what a file holds."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gpnn.nn import NodeModel, build_model
from gpnn.storage.read import shorten, wrong_field
from gpnn.storage.tensors import read_tensors, write_tensors

T = TypeVar("T")


@dataclass
class Progress:
    """The state of a training beside its weights and its optimiser.

    Attributes:
        epoch: epochs done.
        best_epoch: the epoch of the best validation, 0 before the first.
        best_value: its metric; higher is better.
        best_loss: its loss, which breaks ties.
        checks_since_best: validations since then.
        seconds: time spent, over all resumed parts.
        history: one record per epoch.
        best_weights: the model's state at the best epoch.
        labels: predicted classes that are learnt beside the training labels, `[N]`, −1 where there is none; None: none
            were predicted yet.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_value: float = -math.inf
    best_loss: float = math.inf
    checks_since_best: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    labels: Tensor | None = None

    def numbers(self) -> dict[str, Any]:
        """All but the tensors, as JSON holds it."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _TENSORS}

    def check(self, model: nn.Module, value: float, loss: float) -> bool:
        """Count one validation and keep the weights if it is the best so far; return whether it is.

        A value or loss that is not a number is never the best.
        """
        better = not math.isnan(loss) and (
            value > self.best_value or (value == self.best_value and loss < self.best_loss)
        )
        if not better:
            self.checks_since_best += 1
            return False
        self.best_epoch, self.best_value, self.best_loss, self.checks_since_best = self.epoch, value, loss, 0
        self.best_weights = copy_weights(model)
        return True


_TENSORS = ("best_weights", "labels")


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the model's state that later steps do not change."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


FORMAT = 1
_TYPES: dict[Any, Any] = {"int": int, "float": int | float}  # all else is the history
_KINDS = {each.name: _TYPES.get(each.type, list) for each in fields(Progress) if each.name not in _TENSORS}


def save_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write weights, best weights, optimiser and progress as one safetensors file, atomically.

    Its metadata holds the progress as JSON, so a kill at any moment leaves the old checkpoint or the new one,
    never a mixture. The checkpoint before stays as `previous.safetensors`, to fall back on when the disk damages the
    newer one. Random state needs no place: masks depend on (seed, epoch, pass) alone.
    """
    _keep_previous(path)
    tensors = {f"model/{name}": tensor.detach() for name, tensor in model.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in progress.best_weights.items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{key}": value for key, value in state.items() if value is not None}
    if progress.labels is not None:
        tensors["labels"] = progress.labels
    write_tensors(path, tensors, {"checkpoint": FORMAT, **progress.numbers()})


def load_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    select: Callable[[str, Tensor], Tensor] = lambda name, tensor: tensor,
) -> Progress:
    """Bring a model and its optimiser to where the checkpoint was written, and return the progress.

    Where its file is damaged and the one before is whole, that one is loaded.

    Args:
        path: the checkpoint.
        model: its weights are replaced.
        optimizer: its state is replaced.
        select: what the model has of each tensor, by its name in the file.

    Warns:
        DamageWarning: where the checkpoint before was loaded instead.

    Raises:
        ValueError: when the file is no checkpoint of this model.
    """
    tensors, header = load_newest([path, *filter(Path.exists, [previous(path)])], _read)
    tensors = {name: select(name, tensor) for name, tensor in tensors.items()}
    device = next(model.parameters()).device
    weights, best = _under(tensors, "model/"), _under(tensors, "best/")
    shapes = _shapes(model.state_dict())
    if _shapes(weights) != shapes or (best and _shapes(best) != shapes):
        raise ValueError(f"The checkpoint {path} must fit the model. Got other parameters.")
    state = _optimizer_state(path, _under(tensors, "optimizer/"), optimizer)
    model.load_state_dict(weights)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    kept = {name: tensor.to(device) for name, tensor in best.items()}
    return Progress(**header, best_weights=kept, labels=tensors.get("labels"))


class DamageWarning(UserWarning):
    """A damaged checkpoint was left aside for the one before it."""


def load_newest(paths: Sequence[Path], read: Callable[[Path], T]) -> T:
    """What `read` gives of the first path that is not damaged.

    Args:
        paths: checkpoints, the newest first; at least one.
        read: raises ValueError where one is damaged.

    Warns:
        DamageWarning: of a damaged one that another replaces.

    Raises:
        ValueError: of the newest, when all are damaged.
    """
    newest, *older = paths
    try:
        return read(newest)
    except ValueError as error:
        for each in older:
            with contextlib.suppress(ValueError):
                found = read(each)
                warnings.warn(f"{error} The training resumes from {each.name}.", DamageWarning, stacklevel=4)
                return found
        raise


def previous(path: Path) -> Path:
    """Where the checkpoint before that at `path` is kept."""
    return path.with_name(f"previous{path.suffix}")


def _keep_previous(path: Path) -> None:
    if path.exists():
        previous(path).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # of a file system without links: then there is none to fall back on
            previous(path).hardlink_to(path)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, header = read_tensors(path, "a checkpoint")
    found = header.pop("checkpoint", None)
    if found != FORMAT:
        raise ValueError(f"{path} must be a checkpoint of format {FORMAT}. Got {shorten(found)}.")
    check_progress(header, path)
    return tensors, header


def check_progress(header: Mapping[str, Any], path: Path) -> None:
    """Raise ValueError unless `header` holds the numbers and the history of a :class:`Progress`, and nothing else."""
    wrong = wrong_field(header, _KINDS)
    if wrong is None and not all(isinstance(record, dict) for record in header["history"]):
        wrong = "history"
    if wrong is None:
        counts = [name for name, kind in _KINDS.items() if kind is int]
        wrong = next((name for name in counts if not 0 <= header[name] <= header["epoch"]), None)
    if wrong is not None:
        raise ValueError(f"{path} must hold numbers and a history. Got another {shorten(wrong)}.")


def _optimizer_state(
    path: Path, tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[int, dict[str, Tensor]]:
    """The optimiser's tensors by parameter and name; every parameter that has any has all."""
    number = sum(len(group["params"]) for group in optimizer.param_groups)
    state: dict[int, dict[str, Tensor]] = {place: {} for place in range(number)}
    for name, tensor in tensors.items():
        place, _, key = name.partition("/")
        if not (place.isdecimal() and len(place) < 9 and int(place) in state):
            raise ValueError(f"The checkpoint {path} must fit the optimiser. Got {shorten(name)}.")
        state[int(place)][key] = tensor
    state = {place: entries for place, entries in state.items() if entries}
    check_optimizer(state, optimizer, path)
    return state


_ENTRIES: dict[type[torch.optim.Optimizer], set[str]] = {
    torch.optim.Adam: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.AdamW: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.SGD: {"momentum_buffer"},
    torch.optim.RMSprop: {"step", "square_avg"},
}


def check_optimizer(state: Mapping[int, Mapping[str, Tensor]], optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Raise ValueError unless each parameter's entries are those the optimiser keeps, of its size, and steps counts."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    wanted = next((names for kind, names in _ENTRIES.items() if isinstance(optimizer, kind)), None)
    for place, entries in state.items():
        wanted = wanted or set(entries)
        if set(entries) != wanted:
            raise ValueError(f"The checkpoint {path} must hold the optimiser of every parameter. Got a part of it.")
        for name, tensor in entries.items():
            like = parameters[place]
            if name == "step":
                fits = tensor.numel() == 1 and tensor.is_floating_point()
                fits = fits and float(tensor) >= 0 and float(tensor).is_integer()
            else:
                fits = tensor.shape == like.shape and tensor.dtype == like.dtype
            if not fits:
                raise ValueError(f"The checkpoint {path} must fit the optimiser. Got another {shorten(name)}.")


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


LEAST_BOUND = 10_000  # sizes up to here are believed without weights to bear them out


def restore_model(arguments: Any, weights: Mapping[str, Tensor], source: str) -> NodeModel:
    """The model of `arguments` with these weights.

    It is first sketched without memory and compared with the weights, so that a file that declares a model of a
    terabyte costs nothing.

    Args:
        arguments: as the file holds them; :func:`gpnn.nn.build_model` takes them.
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
