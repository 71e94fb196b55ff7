"""Slow engine: a tanh cell with mean messages, one node at a time."""

import numpy as np

from gpnn.schedule import Schedule


def run_schedule(schedule: Schedule, state: np.ndarray) -> np.ndarray:
    """The states [N] after all rounds; each node has one number, so that tests can tell every step apart."""
    src, dst = schedule.graph.src.numpy(), schedule.graph.dst.numpy()
    for phases in schedule.rounds:
        for phase in phases:
            held, start = [] if phase.held is None else phase.held.numpy(), state
            for _ in range(phase.repeat):
                old, state = state, state.copy()
                senders, receivers = src[phase.edges.numpy()], dst[phase.edges.numpy()]
                for node in phase.nodes.tolist():
                    kept = start[src[held]][dst[held] == node]
                    arriving = np.concatenate([old[senders[receivers == node]], kept])
                    message = arriving.mean() if len(arriving) else 0.0
                    state[node] = np.tanh(0.7 * old[node] + message + 0.1)
    return state
