"""Slow engine: it walks a Schedule phase by phase, node by node, message by message, in numpy."""

from functools import lru_cache
from math import log

import numpy as np

from gpnn.nn import Cell, CellBank
from gpnn.schedule import Phase, Schedule
from tests.oracle.weigh import weigh


def walk(cell, schedule: Schedule, state: np.ndarray, *, rule="phase", self_loops=False) -> list[np.ndarray]:
    """The visible states after each round, `[N, d]` each."""
    graph, width = schedule.graph, state.shape[1]
    initial = np.concatenate([state, np.zeros((schedule.num_virtual, width))])
    first = cell.cells[0] if isinstance(cell, CellBank) else cell
    memory = np.zeros_like(initial) if type(first.update).__name__ == "LSTMUpdate" else np.zeros((len(initial), 0))
    working = np.concatenate([initial, memory], axis=1)
    src, dst = graph.src.tolist(), graph.dst.tolist()
    kinds = [0] * graph.num_edges if graph.edge_type is None else graph.edge_type.tolist()
    raw = [1.0] * graph.num_edges if graph.edge_weight is None else graph.edge_weight.tolist()
    history = []
    for number, phases in enumerate(schedule.rounds):
        for phase in phases:
            shares, own = weigh(graph, phase, rule, float(self_loops), schedule.num_virtual)
            into = {node: [e for e in shares if dst[e] == node] for node in own}
            held, start = set([] if phase.held is None else phase.held.tolist()), working
            for _ in range(phase.repeat):
                old, working = working, working.copy()
                chosen = _choose(cell, number, phase.kind)
                for node in own:
                    mean = chosen.aggregate == "mean"
                    received = [
                        (shares[e] if mean else raw[e])
                        * send(chosen.message, visible(chosen, (start if e in held else old)[src[e]], width), kinds[e])
                        for e in into[node]
                    ]
                    if mean and own[node]:
                        received.append(own[node] * send(chosen.message, visible(chosen, old[node], width), -1))
                    message = combine(chosen.aggregate, received, width)
                    working[node] = update(chosen.update, old[node], message, initial[node], number, phase)
        history.append(np.stack([visible(first, row, width) for row in working[: len(state)]]))
    return history


def visible(cell, row: np.ndarray, width: int) -> np.ndarray:
    """What of a node's working state is sent: all but a memory, standardised in residual cells of a layer norm."""
    if type(cell.update).__name__ not in ("ResidualUpdate", "GCNResidualUpdate"):
        return row[:width].copy()
    return (row - row.mean()) / np.sqrt(row.var() + 1e-5)


def _choose(cell, number: int, kind: str) -> Cell:
    if not isinstance(cell, CellBank):
        return cell
    if cell.kinds is None:
        return cell.cells[min(number, len(cell.cells) - 1)]
    return cell.cells[cell.kinds.index(kind) if kind in cell.kinds else 0]


@lru_cache(maxsize=32)
def _array(parameter) -> np.ndarray:
    return parameter.detach().double().numpy()


def send(message, h: np.ndarray, kind: int) -> np.ndarray:
    """M(h) along an edge of this type."""
    name = type(message).__name__
    if name == "IdentityMessage":
        return h
    if name == "LinearMessage":
        return h @ _array(message.weight)[kind]
    hidden = h @ _array(message.hidden)[kind] + _array(message.bias)[kind]
    return np.maximum(hidden, 0) @ _array(message.weight)[kind]


def combine(how: str, received: list[np.ndarray], width: int) -> np.ndarray:
    """A(messages); no message is zero."""
    if not received:
        return np.zeros(width)
    return {"mean": np.sum, "sum": np.sum, "max": np.max, "min": np.min}[how](received, axis=0)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def update(unit, h, m, h0, number: int, phase: Phase) -> np.ndarray:
    """U(h, m) by its equation."""
    name, width = type(unit).__name__, len(m)
    if name in ("GRUUpdate", "LSTMUpdate"):
        from_m = _array(unit.weight_ih) @ m + _array(unit.bias_ih)
        weight, bias, visible = _array(unit.weight_hh), _array(unit.bias_hh), h[:width]
        if name == "LSTMUpdate":
            i, f, g, o = np.split(from_m + weight @ visible + bias, 4)
            memory = _sigmoid(f) * h[width:] + _sigmoid(i) * np.tanh(g)
            return np.concatenate([_sigmoid(o) * np.tanh(memory), memory])
        r, z = np.split(_sigmoid((from_m + weight @ h + bias)[: 2 * width]), 2)
        if unit.reset == "after":
            candidate = from_m[2 * width :] + r * (weight[2 * width :] @ h + bias[2 * width :])
        else:
            candidate = from_m[2 * width :] + weight[2 * width :] @ (r * h) + bias[2 * width :]
        return (1 - z) * np.tanh(candidate) + z * h
    if name == "GCNUpdate":
        return np.maximum(m @ _array(unit.weight_message) + _array(unit.bias), 0)
    if name == "SAGEUpdate":
        return np.maximum(h @ _array(unit.weight_state) + m @ _array(unit.weight_message) + _array(unit.bias), 0)
    if name == "MLPUpdate":
        return np.tanh(h @ _array(unit.weight_state) + m @ _array(unit.weight_message) + _array(unit.bias))
    if name == "ResidualUpdate":
        own = (h - h.mean()) / np.sqrt(h.var() + 1e-5)
        change = own @ _array(unit.weight_state) + m @ _array(unit.weight_message) + _array(unit.bias)
        return h + np.maximum(change, 0)
    if name == "GCNResidualUpdate":
        return h + np.maximum(m @ _array(unit.weight_message) + _array(unit.bias), 0)
    if name == "BatchResidualUpdate":  # as it is after training: an affine map
        norm = {key: _array(value) for key, value in unit.norm.state_dict().items()}
        change = h @ _array(unit.weight_state) + m @ _array(unit.weight_message) + _array(unit.bias)
        change = (change - norm["running_mean"]) / np.sqrt(norm["running_var"] + unit.norm.eps)
        return h + np.maximum(change * norm["weight"] + norm["bias"], 0)
    if name == "LinearUpdate":
        partial = unit.teleport == "round" and phase.closing
        return m if partial else (1 - unit.alpha) * m + unit.alpha * h0
    if name == "MaxPlusUpdate":
        arrived = m + unit.step * np.round(unit.rate * _array(unit.increment))
        return np.where(_array(unit.keep) > 0, np.maximum(h, arrived), arrived)
    beta = log(unit.theta / (number + 1) + 1)
    support = (1 - unit.alpha) * m + unit.alpha * h0
    return np.maximum((1 - beta) * support + beta * support @ _array(unit.weight), 0)
