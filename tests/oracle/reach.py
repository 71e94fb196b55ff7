"""Slow broadcast: each node's set of sources, one message at a time."""

from gpnn.schedule import Schedule


def known_by_step(schedule: Schedule) -> list[list[set[int]]]:
    """The sources that each node knows, before the first step and after each one."""
    src, dst = schedule.graph.src.tolist(), schedule.graph.dst.tolist()
    num_real = schedule.graph.num_nodes - schedule.num_virtual
    known = [{node} if node < num_real else set() for node in range(schedule.graph.num_nodes)]
    history = [known]
    for phases in schedule.rounds:
        for phase in phases:
            start = known
            for _ in range(phase.repeat):
                new = [set(sources) for sources in known]
                for edge in [] if phase.held is None else phase.held.tolist():
                    new[dst[edge]] |= start[src[edge]]
                for edge in phase.edges.tolist():
                    new[dst[edge]] |= known[src[edge]]
                known = new
                history.append(known)
    return history


def step_costs(schedule: Schedule) -> list[tuple[int, int]]:
    """Messages and updates of each step."""
    return [
        (len(phase.edges) + (0 if repeat else phase.num_held), len(phase.nodes))
        for phases in schedule.rounds
        for phase in phases
        for repeat in range(phase.repeat)
    ]
