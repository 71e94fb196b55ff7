"""What a finished run tells: its report, at the end of its training or anew, explanations, and an export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpnn.build.finish import load_weights, predict_members, write_baselines
from gpnn.build.objects import Built, OwnShard, build, build_data, build_shard, history_notes, pipeline_of
from gpnn.build.predict import Trained, check_classes, place_trained, read_trained, trained_task
from gpnn.build.race import read_race
from gpnn.build.shard_data import read_own
from gpnn.build.unchanged import load_run_config, load_trained_config
from gpnn.config import Config
from gpnn.distributed import SINGLE, group_of, is_shard_folder, read_index
from gpnn.explain import Explained, Explanation, explain_node, find_node
from gpnn.export import check_program, export_models, save_program
from gpnn.kernels.execution import choose_device
from gpnn.nn import GPNN
from gpnn.report import (
    MAX_EXPLAINED,
    Cost,
    Record,
    can_write,
    check_extra,
    choose_examples,
    gather_record,
    measure_cost,
    write_model_card,
    write_report,
)
from gpnn.run.folder import RunFolder
from gpnn.storage.read import read_json, read_text, shorten
from gpnn.train.evaluate import evaluating, predict_logits
from gpnn.train.task import Prediction

if TYPE_CHECKING:
    from torch_geometric.data import Data


def explain_run(run: RunFolder, node: str, num: int = 10) -> Explanation:
    """What carried a finished run's prediction of a node of its graph.

    Args:
        run: a finished run.
        node: the user's id of the node, or its row where nodes have none.
        num: how many edges, neighbours and columns to list, at most.

    Raises:
        ValueError: when the run is not finished, or its graph has no such node.
    """
    trained, data, members = _place_run(run)
    row = find_node(data, node)
    return explain_node(members, row, task=trained.task, classes=check_classes(trained), num=num)


def export_run(run: RunFolder, file: Path) -> dict[str, Any]:
    """Write a finished run's model over its own graph as a program (:func:`gpnn.export.save_program`); its facts.

    Raises:
        ValueError: when the run is not finished, its graph has changed, or dense features take too much memory.
    """
    check_program(file)
    trained, data, members = _place_run(run)
    x = data.get("x")
    module = export_models(members, x, trained.task)
    shape = None if x is None else list(x.shape)
    facts = trained.task.to_mapping() | {"classes": check_classes(trained), "x": shape}
    save_program(module, x, file, facts)
    return facts


def explain_examples(run: RunFolder, examples: Mapping[int, str], num: int = 6) -> list[tuple[str, Explanation]]:
    """What carried a finished run's predictions of some rows, each with its note; none where all must be predicted.

    Args:
        run: a finished run.
        examples: rows of its graph, and a note on each.
        num: how many edges, neighbours and columns to list, at most.
    """
    trained, _, members = _place_run(run)
    if not all(member.local for member in members):
        return []
    names = check_classes(trained)
    why = [explain_node(members, row, task=trained.task, classes=names, num=num) for row in examples]
    return list(zip(examples.values(), why))


def _place_run(run: RunFolder) -> tuple[Trained, Data, list[Explained]]:
    """A finished run, its graph, and each of its models with the graph as it takes it."""
    config, trained = load_run_config(run), read_trained(run)
    data = build_data(trained.as_read(config), trained.vocabulary)
    members = []
    for weight, task, member, own, graph in trained.each(config, data):
        model, _, _, part = place_trained(member, own, graph)
        scaled = own.data.scale_features == "rows"
        members.append(Explained(model, graph, pipeline_of(own), task, part, own.train.precision, weight, scaled))
    return trained, data, members


def report_run(path: Path, out: Path | None = None) -> Path:
    """Write the report of a finished run anew, in one process; where it was written.

    Args:
        path: the run folder, of a whole graph or of a folder of shards.
        out: where to write; None: the run's `report.html`.

    Raises:
        ValueError: when there is no run, it failed, it is not finished, or its data has changed since.
        ImportError: without plotly or jinja2, naming the extra.
    """
    check_extra()
    run = RunFolder.open(path)
    run.check_succeeded()
    if not run.has_results:
        raise ValueError(f"A report needs a finished run. {str(path)!r} is not: gpnn train --resume {path}")
    trained, config = read_trained(run), load_trained_config(run)
    built = _build_shards(config) if is_shard_folder(config.data.name) else build(config)
    _check_same(trained, built)
    load_weights(built, trained)
    if not run.baselines.exists():
        write_baselines(run, built)
    write_run_report(run, built, out=out)
    if out is None:
        write_model_card(run)
    return out or run.report


def write_run_report(run: RunFolder, built: Built, logits: Tensor | None = None, out: Path | None = None) -> None:
    """Write the report of a finished run whose model holds the run's weights, where rank 0 can; collective.

    Args:
        run: the run.
        built: this process's objects.
        logits: of this process's nodes, where they are known already.
        out: where to write; None: the run's `report.html`.
    """
    group = group_of(built.plan)
    if int(group.broadcast(torch.tensor(can_write()))):
        record = record_run(run, built, logits)
        if record is not None:
            write_report(record, out or run.report)
        group.barrier()


def record_run(run: RunFolder, built: Built, logits: Tensor | None = None) -> Record | None:
    """In rank 0 the record of a finished run whose model holds the run's weights, elsewhere None; collective."""
    data, plan, config = built.data, built.plan, built.config
    x = None if data.get("x") is None else data.x.to(plan.device)
    if logits is None:
        logits = _predict(run, built, x)
    states, states_name = _final_states(built, x, logits)
    predictions = trained_task(run).predict(logits).cpu()
    record = gather_record(
        run_facts(run, config) | {"notes": [*built.notes, *history_notes(run, built)]},
        data,
        plan,
        predictions,
        partition=built.partition,
        states=states.cpu(),
        states_name=states_name,
        cost=_cost(built, x),
    )
    return record and replace(record, explanations=_explain(run, built, predictions))


def _explain(run: RunFolder, built: Built, predictions: Tensor) -> list[tuple[str, Explanation]]:
    """Why a few held-out nodes get their predictions; none of shards."""
    data, whole = built.data, group_of(built.plan).size == 1 and not is_shard_folder(built.config.data.name)
    if not whole or data.num_nodes > MAX_EXPLAINED:
        return []
    examples = choose_examples(data, predictions, built.config.seed)
    return explain_examples(run, examples) if examples else []


def _predict(run: RunFolder, built: Built, x: Tensor | None) -> Tensor:
    """The outputs of the run's model for this process's nodes, or of its blend."""
    logits = predict_logits(built.model, x, built.plan, precision=built.config.train.precision)
    trained = read_trained(run)
    if not trained.members:
        return logits
    own = Prediction(trained.weight, trained.own_task, logits)
    return trained.task.combine([own, *predict_members(trained.members, built)])


def run_facts(run: RunFolder, config: Config) -> dict[str, Any]:
    """What the folder of a run holds of its record, by the names of the record's attributes."""
    name = config.data.name
    return {
        "name": Path(read_index(name).facts["name"] if is_shard_folder(name) else name).name,
        "run": run.path.resolve().name,
        "metrics": run.read_metrics(),
        "history": run.read_history(),
        "config": read_text(run.config),
        "environment": read_json(run.environment),
        "seed": config.seed,
        "race": read_race(run.race).record if run.race.exists() else None,
        "baselines": run.read_baselines(),
    }


def _build_shards(config: Config) -> Built:
    """The objects of a run from a folder of shards, all read by this process."""
    engine = "fused" if config.engine == "auto" else config.engine  # nothing is trained: memory does not decide
    index = read_index(config.data.name)
    shard, data = read_own(index, SINGLE)
    own = OwnShard(index, shard, data, SINGLE, choose_device(config.device))
    return build_shard(replace(config, engine=engine), own)


def _check_same(trained: Trained, built: Built) -> None:
    """Refuse data or settings that are not those of the training."""
    now = json.loads(json.dumps(built.model_arguments))
    for name in sorted({*now, *trained.arguments}):
        then = trained.arguments.get(name)
        if now.get(name) != then:
            raise ValueError(
                "A report needs the data and the config.toml that the run was trained with. "
                f"Its model's {name} was {shorten(then)}, and would be {shorten(now.get(name))} now."
            )


def _cost(built: Built, x: Tensor | None) -> Cost | None:
    """What a training pass takes; None for a model that is not trained by passes."""
    if not isinstance(built.model, GPNN):
        return None
    return measure_cost(built.model, x, built.plan, precision=built.config.train.precision, seed=built.config.seed)


def _final_states(built: Built, x: Tensor | None, logits: Tensor) -> tuple[Tensor, str]:
    """The states after propagation, or the scores where the model predicts before it propagates."""
    if not isinstance(built.model, GPNN):
        return logits, "scores"
    if built.model.predict == "before":
        return logits, "scores after propagation"
    with torch.no_grad(), evaluating(built.model):
        return built.model.states(x, built.plan), "final states"
