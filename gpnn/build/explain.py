"""Why a finished run's model gives a node its class."""

from __future__ import annotations

from gpnn.build.objects import build_data, pipeline_of
from gpnn.build.predict import check_classes, place_trained, read_trained
from gpnn.build.unchanged import load_run_config
from gpnn.explain import Explained, Explanation, explain_node, find_node
from gpnn.run.folder import RunFolder


def explain_run(run: RunFolder, node: str, num: int = 10) -> Explanation:
    """What carried a finished run's prediction of a node of its graph.

    Args:
        run: a finished run.
        node: the user's id of the node, or its row where nodes have none.
        num: how many edges, neighbours and columns to list, at most.

    Raises:
        ValueError: when the run is not finished or predicts numbers, or its graph has no such node.
    """
    config, trained = load_run_config(run), read_trained(run)
    data = build_data(trained.as_read(config), trained.vocabulary)
    row = find_node(data, node)
    members = []
    for weight, task, member, own, graph in trained.each(config, data):
        model, _, _, part = place_trained(member, own, graph)
        scaled = own.data.scale_features == "rows"
        members.append(Explained(model, graph, pipeline_of(own), task, part, own.train.precision, weight, scaled))
    return explain_node(members, row, task=trained.task, classes=check_classes(trained), num=num)
