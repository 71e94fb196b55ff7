"""Updates equal predicting the whole new graph, which a plain list of nodes and edges keeps."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.engine.normalize import NORMALIZATIONS
from gpnn.graph import Graph
from gpnn.incremental import Change, EdgeList, LiveGraph, Predictor
from gpnn.nn import GPNN, UPDATES
from gpnn.nn.cell import AGGREGATIONS
from gpnn.partition.neighbours import extend
from gpnn.pipeline import Pipeline
from gpnn.train.evaluate import predict_outputs

WIDTH, CLASSES, PARTS = 3, 2, 3
SCHEDULES = [
    ("synchronous", {}),
    ("partitioned", {}),
    ("partitioned", {"intra": 2, "cut": 1, "update": "receivers"}),
    ("held_cut", {"intra": 3}),
]


@dataclass
class Plain:
    """The graph as Python's lists: what :class:`LiveGraph` is held to."""

    x: dict[str, torch.Tensor]
    edges: list[tuple[str, str, int, float]]
    home: dict[str, int]
    typed: bool
    weighted: bool
    count: int = field(default=100)

    def graph(self) -> Graph:
        row = {node: place for place, node in enumerate(self.x)}
        src, dst, kind, weight = ([edge[i] for edge in self.edges] for i in range(4))
        ends = [torch.tensor([row[node] for node in each], dtype=torch.int64) for each in (src, dst)]
        types = torch.tensor(kind, dtype=torch.int64) if self.typed else None
        return Graph(*ends, len(row), types, torch.tensor(weight, dtype=torch.float64) if self.weighted else None)

    def apply(self, change: Change) -> None:
        gone = set(change.removed_nodes)
        pairs = set(zip(change.removed_edges.source, change.removed_edges.target))
        self.edges = [e for e in self.edges if e[:2] not in pairs and not gone & set(e[:2])]
        self.x = {node: x for node, x in self.x.items() if node not in gone}
        for node, x in zip(change.nodes, [] if change.x is None else change.x):
            self.x[node] = x
        kinds = [0] * 99 if change.edges.edge_type is None else change.edges.edge_type.tolist()
        weights = [1.0] * 99 if change.edges.weight is None else change.edges.weight.tolist()
        self.edges += list(zip(change.edges.source, change.edges.target, kinds, weights))


def draw_graph(rng: np.random.Generator, *, typed: bool, weighted: bool, size: int = 14) -> Plain:
    names = [f"n{i}" for i in range(size)]
    x = {name: torch.from_numpy(rng.normal(size=WIDTH)) for name in names}
    ends = rng.integers(0, size, (2, 2 * size))
    edges = [(names[a], names[b], int(rng.integers(2)), float(rng.random())) for a, b in ends.T]
    edges += [(names[0], names[1], 1, 0.5)]  # both types are there
    home = {name: int(part) for name, part in zip(names, rng.integers(0, PARTS, size))}
    home[names[0]] = PARTS - 1
    return Plain(x, edges, home, typed, weighted)


def draw_change(rng: np.random.Generator, plain: Plain) -> Change:
    nodes = list(plain.x)
    gone = list(rng.choice(nodes, rng.integers(0, 3), replace=False))
    left = [node for node in nodes if node not in gone]
    new = [f"m{plain.count + i}" for i in range(rng.integers(0, 3))]
    plain.count += len(new)
    back = [node for node in plain.home if node not in plain.x and rng.random() < 0.5]
    given_nodes = [*new, *back, *rng.choice(left, rng.integers(0, 2), replace=False)]
    ends = [list(rng.choice([*left, *new, *back], int(number))) for number in [rng.integers(0, 4)] * 2]
    number = len(ends[0])
    kinds = rng.integers(0, 2, number) if plain.typed else None
    edges = EdgeList(*ends, kinds, rng.random(number) if plain.weighted else None)
    cut = [edge for edge in plain.edges if rng.random() < 0.1]
    removed = EdgeList([edge[0] for edge in cut], [edge[1] for edge in cut])
    return Change(given_nodes, torch.from_numpy(rng.normal(size=(len(given_nodes), WIDTH))), edges, gone, removed)


def predict_plain(plain: Plain, model: GPNN, pipeline: Pipeline) -> torch.Tensor:
    graph, part = plain.graph(), None
    if pipeline.schedule != "synchronous":
        part = extend(graph, np.array([plain.home.get(node, -1) for node in plain.x]), PARTS)
    return predict_outputs(model, torch.stack(list(plain.x.values())), pipeline.lower_again(graph.to_data(), part))


def check_updates(seed: int, pipeline: Pipeline, *, keep: bool = True, typed=False, weighted=False, **options) -> None:
    rng = np.random.default_rng(seed)
    plain = draw_graph(rng, typed=typed, weighted=weighted)
    arguments = {"num_rounds": int(pipeline.rounds), "num_edge_types": 1 + typed, **options}
    model = GPNN(WIDTH, 4, CLASSES, seed=seed % 7, **arguments).double()
    labels = None if pipeline.schedule == "synchronous" else np.array(list(plain.home.values()))
    live = LiveGraph(plain.graph(), torch.stack(list(plain.x.values())), list(plain.x), labels=labels)
    predictor = Predictor(model, live, pipeline, keep=keep)
    shown = dict(zip(plain.x, predictor.predict()))
    for _ in range(4):
        change = draw_change(rng, plain)
        plain.apply(change)
        made = predictor.update(change)
        shown |= {live.slots.ids[slot]: output for slot, output in zip(made.slots, made.outputs)}
        wanted = predict_plain(plain, model, pipeline)
        found = torch.stack([shown[node] for node in plain.x])
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)
        assert sorted(live.slots.ids[slot] for slot in live.slots.in_order()) == sorted(plain.x)


def make_pipeline(schedule: int = 1, **arguments) -> Pipeline:
    name, options = SCHEDULES[schedule]
    return Pipeline(schedule=name, schedule_options=options, rounds=2, k=PARTS, device="cpu", **arguments)


@pytest.fixture(autouse=True)
def never_whole(monkeypatch):
    """Small graphs are soon reached as a whole; here what is reached is computed all the same."""
    monkeypatch.setattr("gpnn.incremental.predictor.MOST", 2.0)


@pytest.mark.thorough
@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    schedule=st.integers(0, len(SCHEDULES) - 1),
    cell=st.sampled_from(sorted(UPDATES)),
    rule=st.sampled_from(NORMALIZATIONS),
    loops=st.booleans(),
    keep=st.booleans(),
    typed=st.booleans(),
    weighted=st.booleans(),
)
def test_updates_equal_the_whole_prediction(seed, schedule, cell, rule, loops, keep, typed, weighted):
    pipeline = make_pipeline(schedule, normalization=rule, self_loops=loops)
    check_updates(seed, pipeline, keep=keep, typed=typed, weighted=weighted, cell=cell, message="linear")


@pytest.mark.parametrize("schedule", range(len(SCHEDULES)))
@pytest.mark.parametrize("cell", sorted(UPDATES))
def test_every_cell_under_every_local_schedule(cell, schedule):
    check_updates(schedule, make_pipeline(schedule, normalization="symmetric_split", self_loops=True), cell=cell)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
def test_every_normalization(rule):
    for schedule in range(len(SCHEDULES)):
        check_updates(schedule + 20, make_pipeline(schedule, normalization=rule), cell="gru", weighted=True)


@pytest.mark.parametrize(
    "options",
    [
        {"predict": "before", "readout": "learned"},
        {"predict": "features"},
        {"readout": "concat"},
        {"readout": "max", "concat": "initial"},
        {"norm": "batch", "head": [5], "encoder": [6]},
        {"sharing": "round"},
        {"sharing": "kind"},
        *({"aggregate": each} for each in AGGREGATIONS),
    ],
)
def test_every_form_of_the_model(options):
    check_updates(3, make_pipeline(normalization="split"), cell="linear" if "predict" in options else "gru", **options)


def test_no_rounds_compute_the_changed_nodes_alone():
    rng = np.random.default_rng(0)
    plain = draw_graph(rng, typed=False, weighted=False)
    pipeline = Pipeline(schedule="synchronous", rounds=0, k=1, device="cpu")
    live = LiveGraph(plain.graph(), torch.stack(list(plain.x.values())), list(plain.x))
    predictor = Predictor(GPNN(WIDTH, 4, CLASSES).double(), live, pipeline)
    predictor.predict()
    made = predictor.update(Change(["n3"], torch.ones(1, WIDTH)))
    assert made.slots.tolist() == [3]
    assert not made.whole


def test_only_what_lies_within_reach_is_computed():
    """A directed path: two steps reach the two nodes after a change, and none before it."""
    path = Graph(list(range(9)), list(range(1, 10)), num_nodes=10)
    live = LiveGraph(path, torch.eye(10), [str(i) for i in range(10)])
    pipeline = Pipeline(schedule="synchronous", rounds=2, k=1, device="cpu")
    predictor = Predictor(GPNN(10, 4, 2, cell="gru"), live, pipeline)
    predictor.predict()
    assert predictor.update(Change(["4"], torch.ones(1, 10))).slots.tolist() == [4, 5, 6]
    assert predictor.update(Change(removed_edges=EdgeList(["6"], ["7"]))).slots.tolist() == [6, 7, 8]
    assert predictor.update(Change()).slots.tolist() == []


def test_a_schedule_of_global_reach_computes_all_and_says_so(monkeypatch):
    ring = Graph([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4).to_undirected()
    for schedule, options in (("waves", {}), ("partitioned", {"virtual": "graph"})):
        live = LiveGraph(ring, torch.eye(4), list("abcd"), labels=np.array([0, 0, 1, 1]))
        pipeline = Pipeline(schedule=schedule, schedule_options=options, rounds=1, k=2, device="cpu")
        model = GPNN(4, 4, 2, num_edge_types=3)
        predictor = Predictor(model, live, pipeline)
        made = predictor.update(Change(["a"], torch.ones(1, 4)))
        assert "reaches the whole graph" in made.whole
        assert made.slots.tolist() == [0, 1, 2, 3]
    monkeypatch.setattr("gpnn.incremental.predictor.MOST", 0.1)
    predictor = Predictor(
        GPNN(4, 4, 2),
        LiveGraph(ring, torch.eye(4), list("abcd")),
        Pipeline(schedule="synchronous", rounds=1, k=1, device="cpu"),
    )
    predictor.predict()
    assert predictor.update(Change(["a"], torch.ones(1, 4))).whole == "the change reaches 3 of 4 nodes"


def test_what_fails_in_the_middle_is_computed_as_a_whole_next_time(monkeypatch):
    ring = Graph([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4)
    pipeline = Pipeline(schedule="synchronous", rounds=1, k=1, device="cpu")
    predictor = Predictor(GPNN(4, 4, 2), LiveGraph(ring, torch.eye(4), list("abcd")), pipeline)
    predictor.predict()
    with monkeypatch.context() as patch:
        patch.setattr("gpnn.incremental.region.Region._read", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            predictor.update(Change(["a"], torch.ones(1, 4)))
    made = predictor.update(Change(["b"], torch.ones(1, 4)))
    assert made.whole == "what was kept is not that of the graph"
    torch.testing.assert_close(made.outputs, predictor.predict())


def test_without_memory_for_states_the_answers_are_the_same(monkeypatch):
    monkeypatch.setattr("gpnn.incremental.predictor.available_bytes", lambda device: 0.0)
    check_updates(5, make_pipeline(normalization="symmetric"), cell="gru")
