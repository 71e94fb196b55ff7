"""A finished run's model over its graph: why it gives a node its class, and a program that needs torch alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpnn.build.objects import build_data, pipeline_of
from gpnn.build.predict import Trained, check_classes, place_trained, read_trained
from gpnn.build.unchanged import load_run_config
from gpnn.explain import Explained, Explanation, explain_node, find_node
from gpnn.export import check_program, export_models, save_program
from gpnn.run.folder import RunFolder

if TYPE_CHECKING:
    from torch_geometric.data import Data


def explain_run(run: RunFolder, node: str, num: int = 10) -> Explanation:
    """What carried a finished run's prediction of a node of its graph.

    Args:
        run: a finished run.
        node: the user's id of the node, or its row where nodes have none.
        num: how many edges, neighbours and columns to list, at most.

    Raises:
        ValueError: when the run is not finished or predicts numbers, or its graph has no such node.
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
