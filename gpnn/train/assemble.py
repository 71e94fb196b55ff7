"""From plain arguments to the parts of a training: partition, schedule, plan and model."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpnn.check import check_choice
from gpnn.engine import Plan
from gpnn.graph import Graph, as_graph, digest_edges
from gpnn.graph.read import read_edges
from gpnn.partition import Partition
from gpnn.partition.candidates import training_nodes
from gpnn.schedule import SCHEDULES, Schedule
from gpnn.train.recipe import Recipe
from gpnn.train.sizes import choose_hidden, choose_parts, choose_rounds, choose_weight_decay
from gpnn.train.task import num_classes

if TYPE_CHECKING:
    from torch_geometric.data import Data

_GIVEN = ("data", "part", "rounds", "seed")  # arguments of a schedule that are not its options


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run: K subgraphs, T rounds, d hidden channels; "auto" until the graph is known."""

    k: int | str = "auto"
    rounds: int | str = "auto"
    hidden_channels: int | str = "auto"

    def resolve(self, data: Data) -> Sizes:
        """The same with "auto" replaced by what :mod:`gpnn.train.sizes` chooses for the graph."""
        sizes = self
        if self.k == "auto":
            sizes = replace(sizes, k=most_parts(data, choose_parts(data.num_nodes)))
        if self.rounds == "auto":
            sizes = replace(sizes, rounds=choose_rounds(as_graph(data)))
        if self.hidden_channels == "auto":
            sizes = replace(sizes, hidden_channels=choose_hidden(num_classes(data)))
        return sizes


def resolve_recipe(recipe: Recipe, data: Data) -> Recipe:
    """The recipe with the weight decay chosen by the number of features where it is "auto"."""
    if recipe.weight_decay != "auto":
        return recipe
    x = data.get("x")
    return replace(recipe, weight_decay=choose_weight_decay(0 if x is None else x.shape[1]))


def most_parts(data: Data, k: int) -> int:
    """`k`, or as many subgraphs as the graph has nodes to seed them with: its training nodes, else all."""
    candidates = training_nodes(data)
    return min(k, data.num_nodes if candidates is None else candidates.numel())


def schedule_options(name: str) -> dict[str, inspect.Parameter]:
    """The options of a schedule, by name.

    >>> list(schedule_options("partitioned"))
    ['intra', 'cut', 'update', 'virtual']
    """
    parameters = _schedule_parameters(name)
    return {key: value for key, value in parameters.items() if key not in _GIVEN}


def needs_partition(schedule: str) -> bool:
    """Whether a schedule is made from a partition."""
    return "part" in _schedule_parameters(schedule)


def make_schedule(
    name: str,
    data: Data | Graph,
    part: Partition | None,
    *,
    rounds: int,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Schedule:
    """The schedule of a name, given those of the arguments that it takes, and its own options.

    Raises:
        ValueError: for an unknown name or option.
    """
    parameters = _schedule_parameters(name)
    for option in options or {}:
        if option not in schedule_options(name):
            known = ", ".join(schedule_options(name)) or "none"
            raise ValueError(f"An option of the schedule {name!r} must be one of: {known}. Got {option!r}.")
    given = {"part": part, "rounds": rounds, "seed": seed}
    taken = {key: value for key, value in given.items() if key in parameters}
    return SCHEDULES[name](data, **taken, **(options or {}))


def model_arguments(
    data: Data, plan: Plan, hidden_channels: int, options: Mapping[str, Any], *, seed: int = 0
) -> dict[str, Any]:
    """The arguments of :class:`gpnn.nn.GPNN` for a graph, as JSON holds them.

    Options that are missing or "auto" are chosen by :func:`resolve_options`.
    """
    x = data.get("x")
    arguments = resolve_options(options, has_features=x is not None)
    if arguments["input"] != "features":
        arguments["num_nodes"] = plan.num_nodes
    return arguments | {
        "in_channels": 0 if x is None else x.shape[1],
        "hidden_channels": hidden_channels,
        "out_channels": num_classes(data),
        "num_rounds": plan.num_rounds,
        "num_edge_types": plan.num_edge_types,
        "seed": seed,
    }


def resolve_options(options: Mapping[str, Any], *, has_features: bool) -> dict[str, Any]:
    """A model's options with those that are missing or "auto" chosen by its cell and by what the graph has.

    The linear cell predicts before it propagates and learns the weights of the rounds; cells with parameters
    propagate states, with the features beside the last one, as in the paper. A graph without features has embeddings.

    >>> resolve_options({"cell": "linear"}, has_features=True)["predict"]
    'before'
    """
    linear = options.get("cell") == "linear"
    automatic = {
        "input": "features" if has_features else "embedding",
        "predict": "before" if linear else "after",
        "activation": "relu" if linear else "identity",
        "concat": "features" if has_features and not linear else "none",
        "readout": "learned" if linear else "last",
    }
    chosen = dict(options)
    chosen |= {name: value for name, value in automatic.items() if options.get(name, "auto") == "auto"}
    if linear and chosen["readout"] == "learned":  # its weights hold the initial state; no teleport besides
        chosen["cell_options"] = {"alpha": 0.0, **(chosen.get("cell_options") or {})}
    return chosen


def check_plan(data: Data, plan: Plan | None) -> None:
    """Raise ValueError where a plan has other rows than `data`, or was lowered from other edges.

    Nodes without edges, as a process of several has them, are told by their number alone.
    """
    if plan is None:  # a model of its own that needs none
        return
    labels = data.get("y")
    if labels is not None and len(labels) != plan.num_nodes:
        raise ValueError(f"The plan must have the {len(labels)} nodes of `data`. Got one of {plan.num_nodes}.")
    if data.get("edge_index") is None or plan.edge_digest is None:
        return
    if digest_edges(*read_edges(data)).edges != plan.edge_digest:
        raise ValueError(
            f"The plan must be lowered from the edges of `data`. Got that of another graph of {plan.num_nodes} nodes."
        )


def fingerprint(graph: Graph) -> str:
    """A hash of the graph's structure: equal for the same edges in the same order."""
    digest = hashlib.sha256(str(graph.num_nodes).encode())
    for values in (graph.src, graph.dst):
        digest.update(values.contiguous().numpy().data)
    return digest.hexdigest()


def _schedule_parameters(name: str) -> Mapping[str, inspect.Parameter]:
    check_choice("schedule", name, SCHEDULES)
    return inspect.signature(SCHEDULES[name]).parameters
