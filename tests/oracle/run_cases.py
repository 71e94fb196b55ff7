"""What the tests of runs do in several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpnn.build import Race, begin_run, load_config, open_run, race_run, train_run
from gpnn.config import Config
from gpnn.distributed import ProcessGroup
from gpnn.distributed.launch import Launch, Processes


class StopAfter:
    """Interrupts a training after an epoch."""

    def __init__(self, epoch: int | None) -> None:
        self.last = epoch

    def start(self, history: list[dict[str, Any]]) -> None:
        """Nothing to do."""

    def epoch(self, record: dict[str, Any]) -> bool:
        return record["epoch"] == self.last


def begin_case(group: ProcessGroup, path: Path, settings: list[str], stop: int | None = None) -> str:
    """Begin a run and train it, to the end or to an epoch; why it stopped."""
    processes = Processes(Launch(group.rank, group.size, group.rank, group.size), group)
    run, built = begin_run(lambda: load_config(overrides=settings), path, processes)
    return train_run(run, built, [StopAfter(stop)], report=False).stopped


def reads_case(group: ProcessGroup, path: Path, settings: list[str]) -> tuple[int, list[str], Any]:
    """How often this process read the configuration, the one that it has, and how it would run."""
    reads = []

    def read() -> Config:
        reads.append(group.rank)
        return load_config(overrides=settings)

    _, built = begin_run(read, path, Processes(Launch(group.rank, group.size, group.rank, group.size), group))
    return len(reads), built.config.to_toml().splitlines(), built.engine


def resume_case(group: ProcessGroup, path: Path) -> str:
    """Continue a run to its end."""
    run, built = open_run(path, Processes(Launch(group.rank, group.size, group.rank, group.size), group))
    return train_run(run, built, report=False).stopped


def schedule_case(group: ProcessGroup, path: Path, settings: list[str]) -> tuple[str, int, int, list[str]]:
    """The schedule of a run whose graph counts as large, its rounds and steps, and the notes on it."""
    from unittest.mock import patch

    processes = Processes(Launch(group.rank, group.size, group.rank, group.size), group)
    with patch("gpnn.schedule.make_schedule.LARGE_NODES", 1):
        run, built = begin_run(lambda: load_config(overrides=settings), path, processes)
    notes = [note.what for note in built.notes if "schedule" in note.what]
    train_run(run, built, report=False)
    return built.config.schedule.name, built.plan.num_rounds, built.plan.schedule.num_steps, notes


def race_case(
    group: ProcessGroup, path: Path, settings: list[str], stops: bool = False, too_large: str | None = None
) -> tuple[str, Any]:
    """Race recipes of few epochs, blend the finalists, and train; the winner and the rows of the race without times.

    One that `stops` is interrupted in its first epoch and goes on. Models with the cell `too_large` do not fit in the
    last process.
    """
    from dataclasses import replace
    from unittest.mock import patch

    from gpnn.build.race import read_race
    from gpnn.memory.engine import DoesNotFit
    from gpnn.memory.estimate import Estimate
    from gpnn.pipeline import Pipeline
    from gpnn.recipes import RECIPES
    from gpnn.train.blend import Blend

    choose_engine = Pipeline.choose_engine

    def choose_small(pipeline: Pipeline, *rest: Any, **options: Any) -> Any:
        if pipeline.model_options["cell"] == too_large and group.rank + 1 == group.size:
            raise DoesNotFit("Training must fit", Estimate(3e9, 0, 0, 0, 0, 0, 0), 2e9)
        return choose_engine(pipeline, *rest, **options)

    def choose(results: Any, *rest: Any) -> Blend:
        return Blend(dict(zip([name for name, _ in results], (0.7, 0.3))), 0.02)

    processes = Processes(Launch(group.rank, group.size, group.rank, group.size), group)
    short = {name: replace(each, train=replace(each.train, epochs=4, patience=0)) for name, each in RECIPES.items()}
    changed = patch("gpnn.race.halving.choose_blend", choose), patch.object(Pipeline, "choose_engine", choose_small)
    with patch.dict(RECIPES, short), changed[0], changed[1]:
        before = lambda config: Race(config.to_toml(), ())  # noqa: E731
        run, begun = begin_run(lambda: load_config(overrides=settings), path, processes, before=before)
        if stops:
            assert race_run(run, begun, callbacks=[StopAfter(1)]) is None
            run, begun = open_run(path, processes)
        built = race_run(run, begun)
        assert built is not None
        train_run(run, built, report=False)
    record = read_race(run.race).record
    assert record is not None
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in record.rows]
    return built.config.recipe, (rows, record.blend)
