"""A finished run's page: its record gathered from the folder and the objects, and written."""

from __future__ import annotations

from pathlib import Path

from gpnn.build.finished import check_same, final_states, history_notes, run_facts
from gpnn.build.objects import Built, build
from gpnn.build.predict import read_trained
from gpnn.build.sharded_report import report_shards
from gpnn.build.unchanged import load_run_config
from gpnn.engine.sharded import is_shard_folder
from gpnn.report import Record, check_extra, measure_cost, write_report
from gpnn.train.evaluate import predict_logits, probabilities
from gpnn.train.run_folder import RunFolder


def report_run(path: Path, out: Path | None = None) -> Path:
    """Write the page of a finished run anew, from what its folder holds; where it was written.

    Args:
        path: the run folder.
        out: where to write; None: the run's `report.html`.

    Raises:
        ValueError: when there is no run, it failed, it is not finished, or its data has changed since.
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    run = RunFolder.open(path)
    run.check_succeeded()
    if not run.finished:
        raise ValueError(f"A report needs a finished run. {str(path)!r} is not: gpnn train --resume {path}")
    trained, config, page = read_trained(run), load_run_config(run), out or run.report
    if is_shard_folder(config.data.name):
        report_shards(run, config, trained, page)
        return page
    built = build(config)
    check_same(trained, built)
    built.model.load_state_dict(trained.model.state_dict())
    write_report(gather_record(run, built), page)
    return page


def gather_record(run: RunFolder, built: Built) -> Record:
    """The record of a finished run whose model holds the run's weights."""
    data, plan, model, config = built.data, built.plan, built.model, built.config
    x, precision = None if data.get("x") is None else data.x.to(plan.device), config.train.precision
    logits = predict_logits(model, x, plan, precision=precision)
    states, states_name = final_states(built, x, logits)
    return Record(
        **run_facts(run, config),
        data=data,
        probabilities=probabilities(logits, multi_label=data.y.dim() == 2).cpu(),
        schedule=plan.schedule,
        partition=built.partition,
        states=states.cpu(),
        states_name=states_name,
        cost=measure_cost(model, x, plan, precision=precision, seed=config.seed),
        notes=[*built.notes, *history_notes(run, built)],
    )
