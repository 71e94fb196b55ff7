"""A schedule by its name; what a training that names none takes, and sizes that are auto, by the graph."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gpnn.check import check_choice, check_options
from gpnn.graph import Graph
from gpnn.partition import Partition
from gpnn.schedule import SCHEDULES, Schedule

if TYPE_CHECKING:
    from torch_geometric.data import Data


_GIVEN = ("data", "part", "rounds", "seed")  # arguments of a schedule that are not its options


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
    check_options(f"the schedule {name!r}", options or {}, schedule_options(name))
    given = {"part": part, "rounds": rounds, "seed": seed}
    taken = {key: value for key, value in given.items() if key in parameters}
    return SCHEDULES[name](data, **taken, **(options or {}))


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


def _schedule_parameters(name: str) -> Mapping[str, inspect.Parameter]:
    check_choice("schedule", name, SCHEDULES)
    return inspect.signature(SCHEDULES[name]).parameters


LARGE_NODES = 1 << 18  # of smaller graphs the states fit a cache, and an exchange is mostly latency
DEEP_ROUNDS = 4  # fewer leave no two rounds of several steps
LONG_ROUNDS = 8  # from here on messages over the cut may be held for four steps instead of two


@dataclass(frozen=True)
class ScheduleChoice:
    """A schedule by its name.

    Attributes:
        name: a name of :data:`gpnn.schedule.SCHEDULES`.
        rounds: number of rounds T.
        options: the schedule's own.
    """

    name: str
    rounds: int
    options: Mapping[str, Any] = field(default_factory=dict)


def choose_schedule(num_nodes: int, rounds: int, *, num_processes: int = 1, streamed: bool = False) -> ScheduleChoice:
    """The partition schedule of the paper or, where rows travel far in a deep model, the cut held.

    :func:`~gpnn.schedule.held_cut` takes as many steps as the partition schedule has rounds, two or four of them per
    round. Several processes then exchange rows half or a quarter as often, and the streamed runner reads a subgraph's
    rows as much less often. Small graphs, shallow models and the fused runner of one process gain nothing.

    Args:
        num_nodes: N, of the whole graph.
        rounds: T of the partition schedule.
        num_processes: how many processes share the graph.
        streamed: whether subgraphs are computed one after the other.

    >>> choose_schedule(2708, 5, num_processes=4).name
    'partitioned'
    >>> choose_schedule(10_000_000, 5, num_processes=4)
    ScheduleChoice(name='held_cut', rounds=3, options={'intra': 2})
    """
    moves = num_processes > 1 or streamed
    if not moves or num_nodes < LARGE_NODES or rounds < DEEP_ROUNDS:
        return ScheduleChoice("partitioned", rounds)
    intra = 4 if rounds >= LONG_ROUNDS else 2
    return ScheduleChoice("held_cut", -(-rounds // intra), {"intra": intra})


GPU_NODES = 1 << 21  # of a subgraph that keeps a GPU busy for as long as the CPU takes to start its kernels
HELD_NODES = 1 << 13  # of a subgraph whose steps take far longer than to start them, and whose gates are few megabytes


def choose_parts(num_nodes: int, *, on_gpu: bool = False, held: bool = False) -> int:
    """K ≈ √N / 6, at least 2, so that the largest subgraph and the number of subgraphs grow alike.

    The released configurations take 5 to 20 for 2,708 to 19,717 nodes; this rule gives 9 to 23. On a GPU subgraphs of
    large graphs have two million nodes; on a CPU those of large graphs whose subgraphs take all steps of a round one
    after the other have eight thousand.

    >>> choose_parts(2708), choose_parts(19717), choose_parts(1_000_000)
    (9, 23, 167)
    >>> choose_parts(2708, held=True), choose_parts(1_000_000, held=True)
    (9, 122)
    >>> choose_parts(111_059_956, on_gpu=True)
    53
    """
    parts = min(num_nodes, max(2, round(math.sqrt(num_nodes) / 6)))
    if held and not on_gpu and num_nodes >= LARGE_NODES:
        return max(2, num_nodes // HELD_NODES)
    return min(parts, num_nodes // GPU_NODES + 1) if on_gpu and num_nodes > 2 * GPU_NODES else parts


class Sized(Protocol):
    """A graph, or the sizes of one of which a process holds a shard."""

    @property
    def num_nodes(self) -> int: ...

    @property
    def num_edges(self) -> int: ...


def choose_rounds(graph: Sized) -> int:
    """T = ⌈log N / log(1 + mean degree)⌉ between 2 and 5: steps that cross a random graph of this density.

    >>> from gpnn import Graph
    >>> choose_rounds(Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3))
    2
    """
    branching = 1 + graph.num_edges / graph.num_nodes
    if branching <= 1:
        return 2
    return min(5, max(2, math.ceil(math.log(graph.num_nodes) / math.log(branching))))


def choose_hidden(num_classes: int) -> int:
    """The power of two next above 4·C, between 128 and 512.

    >>> choose_hidden(3), choose_hidden(10), choose_hidden(210)
    (128, 128, 512)
    """
    return min(512, max(128, 1 << (4 * num_classes - 1).bit_length()))
