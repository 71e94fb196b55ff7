"""A trained model over a fixed graph as a plain torch module, and as a program file that needs torch alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gpnn.explain import Explained
from gpnn.kernels.autograd import plain_operations
from gpnn.nn import NodeModel
from gpnn.storage.atomic import write_bytes
from gpnn.train.task import Prediction, Task

MOST_BYTES = 4e9  # of dense features
FACTS = "gpnn.json"  # in a program file: what its outputs mean
SUFFIX = ".pt2"


def export_models(members: Sequence[Explained], x: Tensor | None, task: Task) -> nn.Module:
    """Trained models as one module of torch's own operations and of tensors: weights and the graph's plans.

    It takes the features of all nodes as the user has them, dense `[N, F]` float32, or nothing where the model has
    embeddings alone, and gives the predictions of all nodes: probabilities `[N, C]`, or of a regression the number and
    the ends of its interval, `[N, 3]`. It is traced, and then compared with the models on two sets of features.

    Args:
        members: one model, or those of a blend, and the graph as each takes it.
        x: the features of the graph's nodes, dense or sparse CSR.
        task: what the outputs of all together mean.

    Raises:
        ValueError: when dense features would take too much memory.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    given = () if x is None else (_dense(x),)
    copies = [(each, _copy(each.model), _on_cpu(each).plan) for each in members]

    def predict(*features: Tensor) -> Tensor:
        found = []
        for each, model, plan in copies:
            x = _scale(*features) if each.scaled and features else next(iter(features), None)
            found.append(Prediction(each.weight, each.task, model(x, plan)))
        return task.predict(task.combine(found) if len(found) > 1 else found[0].outputs)

    with torch.no_grad():
        with plain_operations():
            predict(*given)  # what a plan makes on first use is made before the trace
            module = make_fx(predict)(*given)
        for features in (given, tuple(each.roll(1, 0) for each in given)):
            torch.testing.assert_close(module(*features), predict(*features), rtol=1e-4, atol=1e-5)
    return module


def _copy(model: NodeModel) -> NodeModel:
    own = deepcopy(model).cpu().eval().requires_grad_(False)
    if hasattr(own, "runner"):
        own.runner = None  # all at once: the others compute the same in pieces
    return own


def _on_cpu(member: Explained) -> Explained:
    """The same with a plan on the CPU."""
    return replace(member, pipeline=replace(member.pipeline, device="cpu"))


def save_program(module: nn.Module, x: Tensor | None, file: Path, facts: Mapping[str, Any]) -> None:
    """Write an exported module as a program that `torch.export.load` reads where gpnn is not installed.

    Args:
        module: as :func:`export_models` gives it.
        x: the features that it was exported with.
        file: to write, ending in `.pt2`.
        facts: kept as JSON in the file under the name `gpnn.json`.

    Raises:
        ValueError: when the file's name ends otherwise.
        OSError: when it cannot be written.
    """
    check_program(file)
    program = torch.export.export(module, () if x is None else (_dense(x),))
    written = BytesIO()  # torch's own writer ends the process where a disk is full
    torch.export.save(program, written, extra_files={FACTS: json.dumps(facts)})
    write_bytes(file, written.getbuffer())


def check_program(file: Path) -> None:
    """Raise ValueError unless the name of a program file ends in `.pt2`."""
    if file.suffix != SUFFIX:
        raise ValueError(f"An exported program must be a file that ends in {SUFFIX}. Got {file.name!r}.")


def _dense(x: Tensor) -> Tensor:
    size = 4.0 * x.shape[0] * x.shape[1]
    if size > MOST_BYTES:
        raise ValueError(
            f"An exported model takes dense features of at most {MOST_BYTES / 1e9:g} GB. "
            f"Got {x.shape[0]:,} rows of {x.shape[1]:,} columns, {size / 1e9:.1f} GB."
        )
    return (x if x.layout == torch.strided else x.to_dense()).cpu().float()


def _scale(x: Tensor) -> Tensor:
    """:func:`gpnn.data.features.scale_rows` without a look at the values."""
    total = x.abs().sum(1, keepdim=True)
    return torch.where(total > 0, x / total.clamp(min=torch.finfo(x.dtype).tiny), x)
