"""A finished run's page: its record gathered from the folder and the objects, and written."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from gpnn.build.names import load_config
from gpnn.build.objects import Built, build
from gpnn.build.predict import Trained, read_trained
from gpnn.report import Record, check_extra, measure_cost, write_report
from gpnn.storage.read import read_json, read_text, shorten
from gpnn.train.evaluate import predict_logits, probabilities
from gpnn.train.run_folder import RunFolder


def report_run(path: Path, out: Path | None = None) -> Path:
    """Write the page of a finished run anew, from what its folder holds; where it was written.

    Args:
        path: the run folder.
        out: where to write; None: the run's `report.html`.

    Raises:
        ValueError: when there is no run, it is not finished, or its data has changed since.
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    run = RunFolder.open(path)
    if not run.finished:
        raise ValueError(f"A report needs a finished run. {str(path)!r} is not: gpnn train --resume {path}")
    trained = read_trained(run)
    built = build(load_config(run.config))
    _check_same(trained, built)
    built.model.load_state_dict(trained.model.state_dict())
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
        config=read_text(run.config),
        environment=read_json(run.environment),
        data=data,
        probabilities=probabilities(logits, multi_label=data.y.dim() == 2).cpu(),
        schedule=plan.schedule,
        partition=built.partition,
        states=states.cpu(),
        states_name=states_name,
        cost=measure_cost(model, x, plan, precision=precision, seed=config.seed),
        seed=config.seed,
    )


def _check_same(trained: Trained, built: Built) -> None:
    now = json.loads(json.dumps(built.model_arguments))
    for name in sorted({*now, *trained.arguments}):
        then = trained.arguments.get(name)
        if now.get(name) != then:
            raise ValueError(
                "A report needs the data and the config.toml that the run was trained with. "
                f"Its model's {name} was {shorten(then)}, and would be {shorten(now.get(name))} now."
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
