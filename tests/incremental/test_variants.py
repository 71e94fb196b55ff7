"""A node's outputs without an edge, a node's edges or a column equal those of the graph that lacks it."""

import numpy as np
import pytest
import torch

from gpnn.data.features import scale_rows
from gpnn.engine.normalize import NORMALIZATIONS
from gpnn.graph import Graph
from gpnn.incremental import LiveGraph, Predictor
from gpnn.incremental.variants import Deletions, predict_variants
from gpnn.nn import GPNN, UPDATES
from gpnn.partition import Partition
from gpnn.pipeline import Pipeline
from gpnn.train.evaluate import predict_outputs
from tests.oracle.parameters import rest_thorough

SIZE, PARTS = 18, 3
SCHEDULES = [
    ("synchronous", {}),
    ("partitioned", {"intra": 2}),
    ("partitioned", {"update": "receivers"}),
    ("held_cut", {"intra": 3}),
]


def draw(seed: int, *, typed: bool, weighted: bool) -> tuple[Graph, torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, SIZE, (2, 40))
    src, dst = np.append(src, dst[:20]), np.append(dst, src[:20])  # some go both ways
    types = torch.from_numpy(rng.integers(0, 2, 60)) if typed else None
    weight = torch.from_numpy(rng.random(60)) if weighted else None
    graph = Graph(torch.from_numpy(src), torch.from_numpy(dst), SIZE, types, weight)
    return graph, torch.from_numpy(rng.random((SIZE, 4))), rng.integers(0, PARTS, SIZE)


def whole(model, pipeline, graph, x, labels, node, things) -> torch.Tensor:
    x = x.clone()
    for one, other, column in things:
        if one >= 0:
            out, into = (graph.src == one), (graph.dst == one)
            gone = out | into if other < 0 else (out & (graph.dst == other)) | (into & (graph.src == other))
            graph = graph.select_edges(~gone)
        if column >= 0:
            x[node, column] = 0
            x[node] = scale_rows(x[node][None])[0]
    part = None if pipeline.schedule == "synchronous" else Partition(torch.from_numpy(labels), PARTS)
    return predict_outputs(model, x, pipeline.lower_again(graph.to_data(), part))[node]


def check(
    seed: int, schedule: int, *, typed=False, weighted=False, rule="symmetric_split", hidden=5, most=None, **options
) -> None:
    graph, x, labels = draw(seed, typed=typed, weighted=weighted)
    name, own = SCHEDULES[schedule]
    pipeline = Pipeline(
        schedule=name, schedule_options=own, rounds=2, k=PARTS, normalization=rule, self_loops=True, device="cpu"
    )
    model = GPNN(4, hidden, 3, num_rounds=2, num_edge_types=graph.num_edge_types, **options).double()
    x = scale_rows(x)
    live = LiveGraph(graph, x, [str(i) for i in range(SIZE)], labels=None if name == "synchronous" else labels)
    predictor = Predictor(model, live, pipeline)
    predictor.predict()
    pairs = [(int(a), int(b), -1) for a, b in zip(graph.src, graph.dst)]
    single = [*pairs[:12], *((i, -1, -1) for i in range(SIZE)), *((-1, -1, i) for i in range(4))]
    several = [pairs[:3], pairs[5:25], [single[12], single[-1], pairs[3]], single[-3:-1], single[12:16]]
    cases = [[], *([each] for each in single), *several]
    cases = cases[:most]
    for node in (0, 7):
        found = predict_variants(predictor, node, Deletions.of(cases), scaled=True)
        wanted = torch.stack([whole(model, pipeline, graph, x, labels, node, case) for case in cases])
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kept", [0, 4 * SIZE * 4 - 1, 1 << 28])
def test_features_that_propagate_are_mapped_first_in_part_and_whole_alike(monkeypatch, kept):
    """With all nodes they may be too large to be kept, and with a few of them not."""
    monkeypatch.setattr("gpnn.nn.gpnn.KEPT_SPREAD", kept)
    for most in (None, 2):
        check(5, 0, cell="linear", predict="features", concat="none", readout="mean", hidden=2, most=most)


@pytest.mark.parametrize("schedule", range(len(SCHEDULES)))
def test_every_local_schedule(schedule):
    check(schedule, schedule, cell="gru")
    check(schedule + 9, schedule, cell="linear", typed=True, weighted=True, message="linear")


@pytest.mark.parametrize("cell", rest_thorough(sorted(UPDATES), ["gru", "linear", "gcnii"]))
def test_every_cell(cell):
    check(3, 1, cell=cell)


@pytest.mark.parametrize("rule", rest_thorough(NORMALIZATIONS, ["phase", "split"]))
def test_every_normalization(rule):
    check(4, 1, rule=rule, cell="gru", weighted=True)
    check(5, 3, rule=rule, cell="linear", predict="before", readout="learned")
