"""bAbI: a gated graph sequence network on one task, the check of GGNN that the paper made (its appendix)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from experiments.harness.kinds.kind import Kind, Metrics, unknown_keys
from experiments.harness.settings import Settings

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gpnn.engine import Plan
    from gpnn.nn import GGSNN


def run_babi(settings: Settings, seed: int) -> Metrics:
    """Accuracy over whole answers of the epoch that validated best; `babi` holds arguments of :func:`train_task`."""
    return train_task(seed=seed, **settings["babi"])


def train_task(
    *,
    task: int,
    num_train: int = 950,
    fold: int = 1,
    seed: int = 0,
    hidden_channels: int = 8,
    rounds: int = 5,
    learning_rate: float = 0.01,
    epochs: int = 100,
    batch: int = 10,
    solved: float = 0.003,
    num_test: int | None = None,
    root: str | Path | None = None,
) -> Metrics:
    """Train :class:`gpnn.nn.GGSNN` on a task and read the test answers once, with the best weights.

    Li et al. 2015, section 5.1: Adam, five propagation steps; the weights with the best validation accuracy (ties: the
    smaller loss) are kept.

    Args:
        task: 4, 15, 16, 18 or 19.
        num_train: training stories; 50 others validate.
        fold: 1 or 2; fold 2 of task 4 tests on its training stories.
        seed: of weights and batches.
        hidden_channels: width of the states.
        rounds: propagation steps.
        learning_rate: of Adam.
        epochs: the most passes over the training stories.
        batch: questions of a batch.
        solved: validation loss under which a task with every validation answer right is done.
        num_test: how many test questions to read, for the quick form; None: all.
        root: the data folder.
    """
    from gpnn.data import load_dataset

    data = load_dataset("babi", root=root, task=task, fold=fold, num_train=num_train)
    generator = torch.Generator().manual_seed(seed)
    num_questions = int(data.question_type.max()) + 1
    parts = {
        split: _batches(data, data[f"{split}_graphs"], size, generator, rounds)
        for split, size in (("train", batch), ("val", 500))
    }
    model = _make_model(data, num_questions, hidden_channels, seed)
    began = time.perf_counter()
    best, epoch = _descend(model, parts["train"], parts["val"], learning_rate, epochs, solved, generator)
    test = data.test_graphs.nonzero().flatten()[:num_test]
    return {
        **best,
        "test_accuracy": _accuracy(model, _batches(data, test, 1000, generator, rounds)),
        "epochs": epoch,
        "seconds": time.perf_counter() - began,
    }


@dataclass(frozen=True, eq=False)
class _Batch:
    """Some questions: annotations `[N, a]`, their graphs' plan, where each graph begins `[G + 1]`, answers."""

    x: Tensor
    plan: Plan
    ptr: Tensor
    answer: Tensor


def _batches(data: Data, graphs: Tensor, size: int, generator: torch.Generator, rounds: int) -> list[_Batch]:
    from gpnn.data.babi import select_graphs
    from gpnn.engine import lower
    from gpnn.graph import Graph
    from gpnn.nn import mark_questions
    from gpnn.schedule import synchronous

    ids = graphs.nonzero().flatten() if graphs.dtype == torch.bool else graphs
    num_questions = int(data.question_type.max()) + 1
    batches = []
    for chunk in ids[torch.randperm(len(ids), generator=generator)].split(size):
        part = select_graphs(data, chunk)
        graph = Graph(part.edge_index[0], part.edge_index[1], len(part.batch), part.edge_type)
        x = mark_questions(part.x, part.question_type, part.batch, num_questions)
        batches.append(_Batch(x, lower(graph, synchronous(graph, rounds)), part.ptr, part.answer))
    return batches


def _make_model(data: Data, num_questions: int, hidden_channels: int, seed: int) -> GGSNN:
    from gpnn.nn import GGSNN

    return GGSNN(
        data.x.shape[1] * num_questions,
        hidden_channels,
        data.num_classes,
        output="node" if data.output == "node" else "class",
        num_outputs=2 if data.output == "sequence" else 1,
        num_edge_types=int(data.edge_type.max()) + 1,
        seed=seed,
    )


def _descend(
    model: GGSNN,
    train: list[_Batch],
    val: list[_Batch],
    learning_rate: float,
    epochs: int,
    solved: float,
    generator: torch.Generator,
) -> tuple[Metrics, int]:
    """Train until solved or out of epochs; the best validation metrics, whose weights the model then has."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    best: Metrics = {"val_accuracy": -1.0, "val_loss": math.inf}
    weights: dict[str, Tensor] = {}
    epoch = 0
    for epoch in range(1, epochs + 1):
        for at in torch.randperm(len(train), generator=generator).tolist():
            optimizer.zero_grad()
            _loss(model, train[at]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        with torch.no_grad():
            loss = sum(float(_loss(model, each)) for each in val)
        accuracy = _accuracy(model, val)
        if (accuracy, -loss) > (best["val_accuracy"], -best["val_loss"]):
            best = {"val_accuracy": accuracy, "val_loss": loss, "best_epoch": epoch}
            weights = {name: value.clone() for name, value in model.state_dict().items()}
        if accuracy == 1.0 and loss < solved:
            break
    model.load_state_dict(weights)
    return best, epoch


def _loss(model: GGSNN, batch: _Batch) -> Tensor:
    return model.loss(model(batch.x, batch.plan, batch.ptr), batch.answer)


@torch.no_grad()
def _accuracy(model: GGSNN, batches: list[_Batch]) -> float:
    """The share of questions whose answer, all of it, is right."""
    right, total = 0, 0
    for batch in batches:
        chosen = model.choose(model(batch.x, batch.plan, batch.ptr), batch.ptr)
        right += int((chosen == batch.answer.view(len(batch.answer), -1)).all(1).sum())
        total += len(batch.answer)
    return right / total


def _shrink(settings: Settings) -> Settings:
    return {**settings, "babi": {**settings["babi"], "epochs": 1, "num_train": 10, "num_test": 20}}


def _problems(settings: Settings) -> list[str]:
    return unknown_keys(settings, {"kind": None, "babi": train_task})


BABI = Kind(run_babi, _shrink, _problems)
