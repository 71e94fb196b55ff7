"""Run an experiment's cells, in this process or in several, skipping those that are finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from experiments.harness.results import Results
from experiments.harness.spec import Cell, Experiment


def run_experiment(
    experiment: Experiment,
    results: Results,
    *,
    jobs: int = 1,
    progress: Callable[[Cell, int, int], None] | None = None,
    only: Iterable[Cell] | None = None,
    device: str | None = None,
) -> None:
    """Run every cell that `results` does not hold yet; each is kept as soon as it is finished.

    Cells with the same settings and seed are run once.

    Args:
        experiment: what to run.
        results: what is finished, and where it is kept.
        jobs: number of processes, each with one thread.
        progress: called for each finished cell, with the number finished and the number of all.
        only: the cells to run (:meth:`Experiment.select`), in this order; None: all.
        device: where cells run, whatever their settings say, of kinds that have this setting. It is noted with what a
            cell came to and is no part of its key: a cell that is finished stays so. None: as the settings say.
    """
    cells = {cell.key: cell for cell in (experiment.cells() if only is None else only)}
    waiting = [cell for key, cell in cells.items() if key not in results.outcomes]
    finished = len(cells) - len(waiting)
    for cell, metrics in _outcomes(waiting, jobs, device):
        results.add(cell, experiment.keep(metrics))
        finished += 1
        if progress is not None:
            progress(cell, finished, len(cells))


def _outcomes(cells: list[Cell], jobs: int, device: str | None) -> Iterator[tuple[Cell, dict[str, Any]]]:
    if jobs == 1:
        for cell in cells:
            yield cell, run_cell(cell, device)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_single_thread) as pool:
        waiting = {pool.submit(run_cell, cell, device): cell for cell in cells}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def run_cell(cell: Cell, device: str | None = None) -> dict[str, Any]:
    """What one cell comes to, on a device of the caller's choice or that of its settings."""
    from experiments.harness.kinds import KINDS
    from experiments.harness.machine import describe_machine

    where = {} if device is None else {"device": device}
    kind, settings = KINDS[cell.kind], cell.filled_settings | where
    if problems := kind.problems(settings):
        raise ValueError(f"{cell.row}, {cell.column}: {' '.join(problems)}")
    return kind.run(settings, cell.seed) | {"machine": describe_machine(), **where}


def _single_thread() -> None:
    import torch

    torch.set_num_threads(1)
