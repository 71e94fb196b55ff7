"""Checkpoint: one file from which a training continues to the same bits."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpnn.train.atomic import write_tensors
from gpnn.train.progress import Progress

FORMAT = 1


def save_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write weights, best weights, optimiser and progress as one safetensors file, atomically.

    Its metadata holds the progress as JSON, so a kill at any moment leaves the old checkpoint or the new one,
    never a mixture. Random state needs no place: masks depend on (seed, epoch, pass) alone.
    """
    tensors = {f"model/{name}": tensor.detach() for name, tensor in model.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in progress.best_weights.items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{key}": value for key, value in state.items() if value is not None}
    write_tensors(path, tensors, {"checkpoint": FORMAT, **_numbers(progress)})


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Bring a model and its optimiser to where the checkpoint was written, and return the progress.

    Raises:
        ValueError: when the file is no checkpoint of this model.
    """
    tensors, header = _read(path)
    device = next(model.parameters()).device
    weights, best = _under(tensors, "model/"), _under(tensors, "best/")
    if {name: list(tensor.shape) for name, tensor in weights.items()} != _shapes(model):
        raise ValueError(f"The checkpoint {path} must fit the model. Got other parameters.")
    model.load_state_dict(weights)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under(tensors, "optimizer/").items():
        number, key = name.split("/")
        state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return Progress(**header, best_weights={name: tensor.to(device) for name, tensor in best.items()})


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("gpnn", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} must be a checkpoint. Got a damaged file ({error}).") from None
    found = header.pop("checkpoint", None) if isinstance(header, dict) else None
    if found != FORMAT or set(header) != {field.name for field in fields(Progress)} - {"best_weights"}:
        raise ValueError(f"{path} must be a checkpoint of format {FORMAT}. Got {found}.")
    return tensors, header


def _numbers(progress: Progress) -> dict[str, Any]:
    return {each.name: getattr(progress, each.name) for each in fields(progress) if each.name != "best_weights"}


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _shapes(model: nn.Module) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
