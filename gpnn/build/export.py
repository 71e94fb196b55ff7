"""A finished run's model over its graph as a program that needs torch alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpnn.build.objects import build_data
from gpnn.build.predict import check_classes, place_trained, read_trained
from gpnn.build.unchanged import load_run_config
from gpnn.export import Exported, check_program, export_models, save_program
from gpnn.run.folder import RunFolder


def export_run(run: RunFolder, file: Path) -> dict[str, Any]:
    """Write a finished run's model over its own graph as a program (:func:`gpnn.export.save_program`); its facts.

    Raises:
        ValueError: when the run is not finished, its graph has changed, or dense features take too much memory.
    """
    check_program(file)
    config, trained = load_run_config(run), read_trained(run)
    data = build_data(trained.as_read(config), trained.vocabulary)
    members = []
    for weight, task, member, own, graph in trained.each(config, data):
        model, plan, _, _ = place_trained(member, replace(own, device="cpu"), graph)
        members.append(Exported(model, plan, task, own.data.scale_features == "rows", weight))
    x = data.get("x")
    module = export_models(members, x, trained.task)
    shape = None if x is None else list(x.shape)
    facts = trained.task.to_mapping() | {"classes": check_classes(trained), "x": shape}
    save_program(module, x, file, facts)
    return facts
