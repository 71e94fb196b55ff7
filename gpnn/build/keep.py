"""keep_training: a training that was stopped, as far as it came, serves predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpnn.build.finish import finish_run
from gpnn.build.objects import Built
from gpnn.distributed import group_of
from gpnn.run.folder import RunFolder
from gpnn.train.fit import fit


def keep_training(run: RunFolder, built: Built, checkpoint: Path, adopt: Callable[[], None]) -> None:
    """Write model, predictions and metrics of a checkpoint's best weights as the run's; collective.

    Args:
        run: the run folder.
        built: the objects of the training, which stands before the one that the run is for.
        checkpoint: as the training left it.
        adopt: makes the training's configuration the run's; called in rank 0, once results are there to write.
    """
    config = built.config
    result = fit(
        built.model,
        built.data,
        built.plan,
        recipe=config.train,
        seed=config.seed,
        checkpoint=checkpoint,
        callbacks=[_Stop()],
        score_interrupted=True,
    )
    if not result.metrics:
        return
    group = group_of(built.plan)
    if group.rank == 0:
        adopt()
        run.rewrite_history(result.history)
    group.barrier()
    stopped: dict[str, Any] = {"stopped": "interrupted"}
    finish_run(run, built, replace(result, metrics=result.metrics | stopped, **stopped))


class _Stop:
    """The callback that ends a training where it is."""

    def start(self, history: list[dict[str, Any]]) -> bool:
        return True

    def epoch(self, record: dict[str, Any]) -> bool:
        return True
