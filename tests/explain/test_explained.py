"""Which edges are worth a deletion."""

import pytest
import torch

import gpnn
from gpnn.explain.explained import Explained, Linker, hops_to
from gpnn.incremental.variants import Deletions
from gpnn.nn import GPNN
from gpnn.partition import Partition
from gpnn.pipeline import Pipeline
from gpnn.train.task import Classification

RING = gpnn.Graph([0, 1, 2, 3, 5], [1, 2, 3, 0, 4], num_nodes=6)


def ring_links(aggregate: str = "mean"):
    data = RING.to_data()
    data.x = torch.eye(6)
    pipeline = Pipeline(schedule="partitioned", rounds=2, k=2)
    part = Partition(torch.tensor([0, 0, 1, 1, 0, 1]), 2)
    model = GPNN(6, 4, 2, cell="gru", aggregate=aggregate, seed=3)
    return Linker(model, data, pipeline, pipeline.lower(data, part), part).rank(0, 1)


def test_hops_follow_the_edges_backwards():
    assert hops_to(RING.in_edges(), 0).tolist() == [0, 3, 2, 1, -1, -1]


def test_edges_that_cannot_reach_the_node_are_left_out():
    links = ring_links()
    assert links.guided
    assert sorted(links.pairs.tolist()) == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert (links.score.diff() <= 0).all()
    assert sorted(links.neighbours(0).tolist()) == [1, 2, 3]


def test_without_a_gradient_the_nearest_come_first():
    links = ring_links("max")
    assert not links.guided
    assert links.pairs.tolist() == [[0, 3], [2, 3], [1, 2], [0, 1]]
    assert links.neighbours(0).tolist() == [3, 2, 1]


@pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
def test_the_score_is_the_first_order_of_a_weight(task):
    """Against a difference quotient of the weight, through the schedule itself."""
    graph = gpnn.Graph(
        [0, 1, 2, 3, 2], [1, 2, 0, 0, 3], num_nodes=4, edge_weight=torch.tensor([1.0, 2.0, 1.5, 0.5, 1.0])
    )
    data, part = graph.to_data(), Partition(torch.tensor([0, 0, 1, 1]), 2)
    data.x = torch.eye(4)
    for rule in ("phase", "graph", "symmetric_split"):
        pipeline = Pipeline(schedule="partitioned", rounds=2, k=2, normalization=rule)
        model = GPNN(4, 3, 2, cell="linear", cell_options={"alpha": 0.1}, concat="none", seed=1).double().eval()
        data.x = data.x.double()
        links = Linker(model, data, pipeline, pipeline.lower(data, part), part, task).rank(0, 1)
        for (one, other), score in zip(links.pairs.tolist(), links.score.tolist()):
            edge = next(
                e for e, ends in enumerate(zip(graph.src.tolist(), graph.dst.tolist())) if {*ends} == {one, other}
            )
            leads = []
            for step in (-1e-3, 1e-3):
                weight = graph.edge_weight.clone()
                weight[edge] *= 1 + step
                moved = gpnn.Graph(graph.src, graph.dst, 4, edge_weight=weight).to_data()
                with torch.no_grad():
                    scores = model(data.x, pipeline.lower(moved, part))[0]
                leads.append(float(scores[1] - (scores[0] if task == "classification" else 0)))
            slope = (leads[1] - leads[0]) / 2e-3
            assert abs((abs(slope) if task == "regression" else slope) - score) < 1e-4, (rule, one, other)


@pytest.mark.parametrize("schedule", ["synchronous", "random_edges"])
def test_a_column_that_is_deleted_has_the_mean_where_the_model_has_one(schedule):
    """A year that were 0 would be two thousand years away from all others."""
    data = RING.to_data()
    data.x = 2000 + 10 * torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    model = GPNN(2, 4, 2, cell="gru", standardize=True, seed=3).eval()
    model.set_feature_moments(torch.tensor([2000.0, 2001.0]), torch.tensor([10.0, 9.0]))
    pipeline = Pipeline(schedule=schedule, rounds=2, k=1)
    explained = Explained(model, data, pipeline, Classification(2))
    assert explained.local == (schedule == "synchronous")
    found = explained.predict(1, Deletions.of([[], [(-1, -1, 1)]])).outputs
    data.x[1, 1] = 2001.0
    with torch.no_grad():
        expected = model(data.x, pipeline.lower(data, None))[1].double()
    torch.testing.assert_close(found[1], expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[0], expected, atol=1e-3)
