"""A finished run's page: its record gathered from the folder and the objects, and written."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from gpnn.build.names import load_config
from gpnn.build.objects import Built, build
from gpnn.report import Record, check_extra, measure_cost, write_report
from gpnn.train.evaluate import predict_logits, probabilities
from gpnn.train.run_folder import RunFolder


def report_run(path: Path, out: Path | None = None) -> Path:
    """Write the page of a finished run anew, from what its folder holds; where it was written.

    Args:
        path: the run folder.
        out: where to write; None: the run's `report.html`.

    Raises:
        ValueError: when there is no run or it is not finished.
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    run = RunFolder.open(path)
    if not run.finished:
        raise ValueError(f"A report needs a finished run. {str(path)!r} is not: gpnn train --resume {path}")
    weights, _ = run.read_model()
    built = build(load_config(run.config))
    built.model.load_state_dict(weights)
    page = out or run.report
    write_report(gather_record(run, built), page)
    return page


def gather_record(run: RunFolder, built: Built) -> Record:
    """The record of a finished run whose model holds the run's weights."""
    data, plan, model, config = built.data, built.plan, built.model, built.config
    x, precision = None if data.get("x") is None else data.x.to(plan.device), config.train.precision
    logits = predict_logits(model, x, plan, precision=precision)
    states, states_name = _states(built, x, logits)
    return Record(
        name=Path(config.data.name).name,
        run=run.path.resolve().name,
        metrics=run.read_metrics(),
        history=run.read_history(),
        config=run.config.read_text(encoding="utf-8"),
        environment=json.loads(run.environment.read_text(encoding="utf-8")),
        data=data,
        probabilities=probabilities(logits, multi_label=data.y.dim() == 2).cpu(),
        schedule=plan.schedule,
        partition=built.partition,
        states=states.cpu(),
        states_name=states_name,
        cost=measure_cost(model, x, plan, precision=precision, seed=config.seed),
        seed=config.seed,
    )


def _states(built: Built, x: Tensor | None, logits: Tensor) -> tuple[Tensor, str]:
    """What the propagation ended in: the states, or the scores where the model predicts before it propagates."""
    if built.model.predict == "before":
        return logits, "scores after propagation"
    training = built.model.training
    built.model.eval()
    try:
        with torch.no_grad():
            return built.model.states(x, built.plan), "final states"
    finally:
        built.model.train(training)
