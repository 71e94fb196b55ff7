"""DAGs: the edges that follow a breadth-first order and those that go against it (Figure 3)."""

from __future__ import annotations

from pathlib import Path

import torch

from experiments.harness.entry import Entry
from experiments.harness.results import Results
from experiments.harness.spec import Experiment
from gpnn.schedule import Phase, Schedule


def draw_dags(experiment: Experiment, entries: list[Entry], results: Results, folder: Path) -> list[tuple[str, Path]]:
    """A picture a row: the graph, and its sequential schedule's two directed acyclic graphs."""
    from experiments.harness.kinds.broadcast import build_schedule_of
    from gpnn.schedule import draw_schedule

    pictures = []
    for number, cell in enumerate(cell for cell in experiment.cells() if cell.seed == 0):
        schedule, _ = build_schedule_of(cell.filled_settings, cell.seed)
        path = folder / f"{experiment.name}_{number + 1}.svg"
        draw_schedule(sweeps(schedule), path, title=f"{cell.row}: {cell.column}")
        pictures.append((f"{cell.row}: {cell.column}", path))
    return pictures


def sweeps(schedule: Schedule) -> Schedule:
    """The schedule's graph, then the edges of each of its two sweeps at once: a round of three phases to look at.

    The second sweep begins with the first edge whose reverse has been used: no acyclic graph has both.
    """
    graph = schedule.graph
    forward: list[torch.Tensor] = []
    backward: list[torch.Tensor] = []
    used: set[tuple[int, int]] = set()
    for phase in (each.listed for each in schedule.rounds[0]):
        pairs = list(zip(graph.src[phase.edges].tolist(), graph.dst[phase.edges].tolist()))
        turned = bool(backward) or any((dst, src) in used for src, dst in pairs if src != dst)
        (backward if turned else forward).append(phase.edges)
        used.update(pairs)
    kinds = {"the graph": torch.arange(graph.num_edges), "first DAG": _join(forward), "second DAG": _join(backward)}
    phases = tuple(Phase(edges, graph.dst[edges].unique(), kind=kind) for kind, edges in kinds.items() if len(edges))
    return Schedule(graph, (phases,))


def _join(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)
