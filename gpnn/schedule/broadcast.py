"""The broadcast problem: has information from every node reached every other, at what cost, and by which schedule?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpnn.check import check_count
from gpnn.csr import compress
from gpnn.graph import Graph, GraphLike, as_graph
from gpnn.schedule.schedule import Phase, Schedule

MAX_NODES = 100_000
_BUFFER = 1 << 26  # bytes for the bits of one group of sources


@dataclass(frozen=True)
class Reach:
    """How far a schedule carries information.

    A step is one repeat of one phase. Counts run up to and including the step that solved the problem; where
    it is not solved, over the whole schedule. Virtual nodes pass information on but do not count as reached.

    Attributes:
        solved: whether information from every source has reached every node.
        coverage: fraction of the (source, other node) pairs that were reached.
        num_steps: steps done.
        num_rounds: rounds begun.
        num_messages: messages sent.
        num_updates: node updates done.
        num_sources: number of nodes whose information was followed.
        num_components: weakly connected components, joined by virtual nodes where the schedule has any. With
            more than one, `solved` stays False.
        components_solved: whether every source has reached every node of its own component.
        components_coverage: fraction of the pairs within components that were reached.
        components_messages: messages sent up to and including the step that solved every component.
        components_updates: likewise node updates.
    """

    solved: bool
    coverage: float
    num_steps: int
    num_rounds: int
    num_messages: int
    num_updates: int
    num_sources: int
    num_components: int
    components_solved: bool
    components_coverage: float
    components_messages: int
    components_updates: int


def broadcast(data: GraphLike, schedule: Schedule, sources: int | Tensor | None = None, seed: int = 0) -> Reach:
    """Whether `schedule` solves the broadcast problem of Sect. 3.2, and after how many messages and updates.

    The paper counts 36 messages for its example, whole rounds: `Schedule.num_messages`. This counts up to the
    step that solves it, 34, as the paper's proposition does.

    Args:
        data: the graph that the schedule was built for.
        schedule: the schedule to follow.
        sources: the nodes whose information is followed, ids or their number, drawn at random; None: all nodes.
        seed: of the draw.

    Raises:
        ValueError: when the schedule is another graph's, when `sources` are not distinct nodes, or when all
            nodes are requested in a graph of more than 100,000 (the work grows with N·E).

    >>> from gpnn import Graph
    >>> from gpnn.schedule import partitioned, synchronous
    >>> chain = Graph([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], num_nodes=6).to_undirected()
    >>> broadcast(chain, synchronous(chain, rounds=5)).num_messages
    50
    >>> broadcast(chain, partitioned(chain, [0, 0, 0, 1, 1, 1], rounds=2, intra=2)).num_messages
    34
    """
    graph = as_graph(data)
    _check_same(graph, schedule)
    followed = _sources(sources, graph.num_nodes, seed)
    labels = schedule.graph.components().numpy()  # [N + virtual]
    component_sizes = np.bincount(labels[: graph.num_nodes])
    within = int((component_sizes[labels[followed]] - 1).sum())
    in_edges = {id(phase): _steps(schedule.graph, phase.listed) for phase in schedule.distinct_phases()}
    reached, last = 0, 0
    for group in _groups(followed, schedule.graph.num_nodes):
        gained, end = _follow(schedule, in_edges, _start(group, labels), graph.num_nodes)
        reached, last = reached + gained, max(last, end)
    return tally(schedule, reached, within, last, len(followed), int(np.count_nonzero(component_sizes)))


class _InEdges(NamedTuple):
    """The edges of a step grouped by receiver."""

    receivers: np.ndarray  # [n]
    ptr: np.ndarray  # [n + 1]
    senders: np.ndarray  # [e]


def _steps(graph: Graph, phase: Phase) -> list[_InEdges]:
    """What each repeat of a phase sends; what held edges bring in the first is known in all others."""
    first = later = _in_edges(graph, phase.edges)
    if phase.held is not None:
        first = _in_edges(graph, torch.cat([phase.edges, phase.held]))
    return [first] + [later] * (phase.repeat - 1)


def _in_edges(graph: Graph, edges: Tensor) -> _InEdges:
    src, dst = graph.src[edges].numpy(), graph.dst[edges].numpy()
    receivers, row = np.unique(dst, return_inverse=True)
    ptr, senders, _ = compress(row, src, len(receivers), with_edge=False)
    return _InEdges(receivers, ptr, senders.astype(np.int64))


def _follow(
    schedule: Schedule, in_edges: dict[int, list[_InEdges]], start: tuple[np.ndarray, np.ndarray], num_real: int
) -> tuple[int, int]:
    """Pairs (source of the group, other node) reached, and the last step that reached one."""
    from gpnn.schedule.kernels import step

    known, missing = start
    most = max((len(steps[0].receivers) for steps in in_edges.values()), default=0)
    fresh = np.empty((most, known.shape[1]), np.uint64)
    left, reached, last, number = int(missing[:num_real].sum()), 0, 0, 0
    for phases in schedule.rounds:
        for phase in phases:
            for edges in in_edges[id(phase)]:
                if reached == left:
                    return reached, last
                number += 1
                gained = step(known, missing, fresh, *edges, num_real)
                reached, last = reached + gained, number if gained else last
    return reached, last


def _start(group: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sources known to each node (a source knows itself), and how many more of its component may reach it."""
    known = np.zeros((len(labels), -(-len(group) // 64)), np.uint64)
    bit = np.arange(len(group))
    known[group, bit // 64] = np.uint64(1) << (bit % 64).astype(np.uint64)
    missing = np.bincount(labels[group], minlength=int(labels.max()) + 1)[labels]
    missing[group] -= 1
    return known, missing


def _groups(followed: np.ndarray, num_nodes: int) -> Iterator[np.ndarray]:
    """The sources in groups whose bits fit the buffer, so that memory grows with N and not with N²."""
    size = 64 * max(1, _BUFFER // (8 * num_nodes))
    for begin in range(0, len(followed), size):
        yield followed[begin : begin + size]


def _sources(sources: int | Tensor | None, num_nodes: int, seed: int) -> np.ndarray:
    if sources is None:
        if num_nodes > MAX_NODES:
            raise ValueError(
                f"Following every node's information is for graphs of at most {MAX_NODES:,} nodes. "
                f"Got {num_nodes:,}: pass `sources`, how many to draw."
            )
        return np.arange(num_nodes)
    if isinstance(sources, int):
        check_count("sources", sources, at_least=1)
        if sources > num_nodes:
            raise ValueError(f"`sources` must be at most the {num_nodes} nodes. Got {sources}.")
        return np.sort(np.random.default_rng(seed).choice(num_nodes, sources, replace=False))
    ids = np.asarray(sources, np.int64)
    if ids.ndim != 1 or not len(ids) or ids.min() < 0 or ids.max() >= num_nodes or len(np.unique(ids)) < len(ids):
        raise ValueError(f"`sources` must hold distinct nodes from 0 to {num_nodes - 1}. Got {ids.tolist()[:8]}.")
    return ids


def _check_same(graph: Graph, schedule: Schedule) -> None:
    own, size = schedule.graph, graph.num_edges
    same = own.num_nodes - schedule.num_virtual == graph.num_nodes and own.num_edges >= size
    if not same or not (own.src[:size].equal(graph.src) and own.dst[:size].equal(graph.dst)):
        raise ValueError(f"`schedule` must be one of the graph given, {graph}. Got one of {own}.")


def tally(schedule: Schedule, reached: int, within: int, last: int, num_sources: int, num_components: int) -> Reach:
    """The counts, from the pairs reached, the pairs within components and the last step that reached any."""
    ends = _step_ends(schedule)
    everywhere = num_sources * (schedule.graph.num_nodes - schedule.num_virtual - 1)
    solved, components_solved = reached == everywhere, reached == within
    steps = last if solved else len(ends.messages) - 1
    component_steps = last if components_solved else len(ends.messages) - 1
    return Reach(
        solved,
        reached / everywhere if everywhere else 1.0,
        steps,
        int(ends.rounds[steps]),
        int(ends.messages[steps]),
        int(ends.updates[steps]),
        num_sources,
        num_components,
        components_solved,
        reached / within if within else 1.0,
        int(ends.messages[component_steps]),
        int(ends.updates[component_steps]),
    )


class _Ends(NamedTuple):
    """What was done by the end of each step; entry 0 is before the first."""

    rounds: np.ndarray  # [S + 1]
    messages: np.ndarray  # [S + 1]
    updates: np.ndarray  # [S + 1]


def _step_ends(schedule: Schedule) -> _Ends:
    steps = [
        (number, phase.num_edges + (0 if repeat else phase.num_held), phase.num_nodes)
        for number, phases in enumerate(schedule.rounds, start=1)
        for phase in phases
        for repeat in range(phase.repeat)
    ]
    rounds, messages, updates = np.array([(0, 0, 0), *steps], np.int64).T
    return _Ends(rounds, messages.cumsum(), updates.cumsum())


@dataclass(frozen=True)
class Comparison:
    """One schedule's row of the table.

    Attributes:
        name: what the caller calls the schedule.
        num_rounds: rounds T.
        num_phases: phases in all rounds.
        num_steps: steps in all rounds, one per repeat of a phase: the depth of the computation.
        num_messages: messages sent in all rounds.
        num_updates: node updates done in all rounds.
        reach: how far it carries information.
    """

    name: str
    num_rounds: int
    num_phases: int
    num_steps: int
    num_messages: int
    num_updates: int
    reach: Reach

    @property
    def messages_to_solve(self) -> int | None:
        """Messages until every node has reached every other of its component; None when they never do."""
        return self.reach.components_messages if self.reach.components_solved else None

    @property
    def updates_to_solve(self) -> int | None:
        """Likewise node updates."""
        return self.reach.components_updates if self.reach.components_solved else None


def compare_schedules(
    data: GraphLike, schedules: Mapping[str, Schedule], sources: int | Tensor | None = None, seed: int = 0
) -> list[Comparison]:
    """One row per schedule, in the order given.

    Args:
        data: the graph that all the schedules were built for.
        schedules: name → schedule.
        sources: as in :func:`broadcast`.
        seed: as in :func:`broadcast`.

    >>> from gpnn import Graph
    >>> from gpnn.schedule import sequential, synchronous
    >>> chain = Graph([0, 1, 2], [1, 2, 3], num_nodes=4).to_undirected()
    >>> rows = compare_schedules(chain, {"sync": synchronous(chain, 3), "seq": sequential(chain, 1)})
    >>> [(row.name, row.messages_to_solve, row.updates_to_solve) for row in rows]
    [('sync', 18, 12), ('seq', 6, 6)]
    """
    graph = as_graph(data)
    return [_row(name, schedule, broadcast(graph, schedule, sources, seed)) for name, schedule in schedules.items()]


def _row(name: str, schedule: Schedule, reach: Reach) -> Comparison:
    return Comparison(
        name,
        schedule.num_rounds,
        schedule.num_phases,
        schedule.num_steps,
        schedule.num_messages,
        schedule.num_updates,
        reach,
    )
