"""Together: several processes that train one model, each on the nodes that it owns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gpnn.engine.sharded import ShardedPlan
from gpnn.train import sharded_checkpoint
from gpnn.train.evaluate import probabilities
from gpnn.train.loss import supervised_loss, target_weight
from gpnn.train.metrics import BY_CLASS, METRICS, f1_counts, hits, macro_f1_of, mean_over_classes
from gpnn.train.objective import Objective
from gpnn.train.parameters import split_parameters
from gpnn.train.progress import Progress
from gpnn.train.recipe import Recipe
from gpnn.train.task import Task
from gpnn.train.team import Alone


class Together(Alone):
    """The processes of a sharded plan; every method is collective and gives every process the same answer.

    Parameters are everyone's, with the same values, but for embeddings: of these each process has the rows of its
    own nodes.

    Args:
        plan: this process's share of the schedule.
    """

    def __init__(self, plan: ShardedPlan) -> None:
        self.plan, self.peers = plan, plan.peers
        self.most: dict[str, int] = {}

    def objective(self, task: Task, recipe: Recipe) -> Objective:
        return Objective.of(task, recipe, total=self.peers.total)

    def count(self, task: Task, split: str) -> int:
        return int(self.peers.total(torch.tensor(task.nodes[split].numel())))

    def whole(self, loss: Tensor) -> float:
        return float(self.peers.total(loss))

    def clip(self, model: nn.Module, limit: float) -> float:
        own, shared = split_parameters(model)
        self._reduce(shared)
        norm = math.sqrt(float(self.peers.total(_square(own)) + _square(shared)))
        scale = limit / (norm + 1e-6) if limit else 1.0  # as torch.nn.utils.clip_grad_norm_ has it
        if scale < 1:
            for parameter in [*own, *shared]:
                if parameter.grad is not None:
                    parameter.grad.mul_(scale)
        return norm

    def score(self, logits: Tensor, task: Task, split: str, names: Sequence[str] = tuple(METRICS)) -> dict[str, float]:
        nodes, target = task.nodes[split], task.target(split)
        total = self.peers.total(target_weight(target, task.num_classes))
        if not float(total):
            return {}
        loss = supervised_loss(logits[nodes], target, total=total)
        likely = probabilities(logits[nodes], multi_label=task.multi_label)
        scores = {f"{split}_loss": self.whole(loss)}
        return scores | {f"{split}_{name}": self._metric(name, likely, target) for name in names}

    def decide(self, *wishes: bool) -> tuple[bool, ...]:
        return tuple(self.peers.largest(torch.tensor(wishes, dtype=torch.uint8)).bool().tolist())

    def traffic(self) -> dict[str, int]:
        """Bytes that the busiest process sent; what synchronous propagation would have sent; gradients reduced."""
        taken = self.peers.traffic.take()
        counts = torch.tensor([taken.sent, taken.synchronous, taken.reduced])
        names = ("sent_bytes", "synchronous_bytes", "reduced_bytes")
        record = dict(zip(names, self.peers.largest(counts).tolist()))
        self.most = {name: max(self.most.get(name, 0), value) for name, value in record.items()}
        return record

    def load(self, path: Path, model: nn.Module, optimizer: Optimizer) -> Progress | None:
        return sharded_checkpoint.load(path, model, optimizer, self.plan)

    def save(self, path: Path, model: nn.Module, optimizer: Optimizer, progress: Progress) -> None:
        sharded_checkpoint.save(path, model, optimizer, progress, self.plan)

    def figures(self) -> dict[str, Any]:
        """How many processes there were, and the most bytes that one of them sent in an epoch."""
        return {"num_processes": self.peers.size, **self.most}

    def _reduce(self, shared: list[nn.Parameter]) -> None:
        """Sum the gradients over the processes, all in one go; one that nobody has stays None."""
        present = torch.tensor([each.grad is not None for each in shared], device=self.plan.device)
        for dtype in sorted({each.dtype for each in shared}, key=str):
            group = [each for each in shared if each.dtype == dtype]
            flags = torch.stack([flag for flag, each in zip(present, shared) if each.dtype == dtype]).to(dtype)
            pieces = [torch.zeros_like(each) if each.grad is None else each.grad for each in group]
            bucket = self.peers.total(torch.cat([flags, *(piece.flatten() for piece in pieces)]))
            self.peers.traffic.reduced += bucket.numel() * bucket.element_size()
            flags, *summed = bucket.split([len(group), *(each.numel() for each in group)])
            for flag, each, grad in zip(flags.tolist(), group, summed):
                each.grad = grad.view_as(each) if flag else None

    def _metric(self, name: str, likely: Tensor, target: Tensor) -> float:
        """The metric over everyone's nodes: from sums of counts, or class by class from everyone's scores."""
        if name == "accuracy":
            right, asked = self.peers.total(hits(likely, target)).tolist()
            return right / asked
        if name == "macro_f1":
            return macro_f1_of(self.peers.total(f1_counts(likely, target)))
        return mean_over_classes(BY_CLASS[name], likely, target, gather=self._gather)

    def _gather(self, values: Tensor) -> Tensor:
        return torch.cat(self.peers.gather(values))


def _square(parameters: list[nn.Parameter]) -> Tensor:
    """The squared norm of the gradients, float64."""
    squares = [each.grad.double().square().sum().cpu() for each in parameters if each.grad is not None]
    return torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64)
