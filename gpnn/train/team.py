"""Team: who trains. One process needs nobody; several sum their losses and gradients and decide together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

from gpnn.train.checkpoint import load_checkpoint, save_checkpoint
from gpnn.train.evaluate import score
from gpnn.train.metrics import METRICS
from gpnn.train.objective import Objective
from gpnn.train.progress import Progress
from gpnn.train.recipe import Recipe
from gpnn.train.task import Task

if TYPE_CHECKING:
    from gpnn.engine import Plan


class Alone:
    """One process: what it holds is all there is."""

    def objective(self, task: Task, recipe: Recipe) -> Objective:
        """The loss that this process makes small, of which :meth:`whole` is the sum over all."""
        return Objective.of(task, recipe)

    def count(self, task: Task, split: str) -> int:
        """The labelled nodes of a split, everyone's."""
        return task.nodes[split].numel()

    def whole(self, loss: Tensor) -> float:
        """The loss of the whole graph."""
        return loss.item()

    def clip(self, model: nn.Module, limit: float) -> float:
        """Make gradients those of the whole loss, scale them down to norm `limit` (0: leave them); their norm."""
        parameters = [each for each in model.parameters() if each.grad is not None]
        return float(nn.utils.clip_grad_norm_(parameters, limit or math.inf))

    def score(self, logits: Tensor, task: Task, split: str, names: Sequence[str] = tuple(METRICS)) -> dict[str, float]:
        """:func:`gpnn.train.evaluate.score` over everyone's nodes."""
        return score(logits, task, split, names)

    def decide(self, *wishes: bool) -> tuple[bool, ...]:
        """What everyone does, given what this process would do."""
        return wishes

    def traffic(self) -> dict[str, int]:
        """What was sent to other processes since the last look, as a record of the history shows it."""
        return {}

    def load(self, path: Path, model: nn.Module, optimizer: Optimizer) -> Progress | None:
        """Bring model and optimiser to where the checkpoint was written; None where there is none."""
        return load_checkpoint(path, model, optimizer) if path.exists() else None

    def save(self, path: Path, model: nn.Module, optimizer: Optimizer, progress: Progress) -> None:
        """Write the checkpoint."""
        save_checkpoint(path, model, optimizer, progress)

    def figures(self) -> dict[str, Any]:
        """Final figures of the team itself."""
        return {}


def team_of(plan: Plan) -> Alone:
    """The processes that the plan was lowered for."""
    from gpnn.engine.sharded import ShardedPlan
    from gpnn.train.together import Together

    return Together(plan) if isinstance(plan, ShardedPlan) else Alone()
