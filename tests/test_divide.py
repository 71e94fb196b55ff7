"""The door to every partitioner, the trained one included."""

import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn.divide import METHODS
from gpnn.partition import PARTITIONERS
from gpnn.pipeline import Pipeline
from tests.oracle.small_graphs import ring


def test_methods_of_the_graph_are_those_of_the_table(planted: Data) -> None:
    assert (*PARTITIONERS, "learned") == METHODS
    expected = gpnn.partition.partition_graph(planted, 3, "flood_fill", 1)
    assert torch.equal(gpnn.partition_graph(planted, 3, seed=1).labels, expected.labels)


def test_a_learned_partition_of_labelled_data(planted: Data) -> None:
    part = gpnn.partition_graph(planted, 3, method="learned", seed=0, epochs=30)
    assert (part.num_nodes, part.num_parts, part.quality(planted).num_empty) == (90, 3, 0)
    few = planted.train_mask & (torch.arange(90) % 2 == 0)
    other = gpnn.partition_graph(planted, 3, method="learned", seed=0, epochs=30, train_mask=few)
    assert not torch.equal(part.labels, other.labels)


def test_a_learned_partition_of_a_graph_alone() -> None:
    part = gpnn.partition_graph(ring(12), 3, method="learned", epochs=50)
    assert sorted(part.sizes.tolist()) == pytest.approx([4, 4, 4], abs=1)


@pytest.mark.parametrize("schedule", ["partitioned", "held_cut", "synchronous"])
def test_it_runs_as_any_other(planted: Data, schedule: str) -> None:
    pipeline = Pipeline(partition="learned", k=3, partition_options={"epochs": 5}, schedule=schedule, rounds=2)
    made = pipeline.assemble(planted, gpnn.train.Recipe(epochs=2))
    result = gpnn.train.fit(made.model, made.data, made.plan, recipe=gpnn.train.Recipe(epochs=2))
    assert result.problem is None
    assert (made.partition is None) == (schedule == "synchronous")


def test_errors(planted: Data) -> None:
    with pytest.raises(ValueError, match=r"`k` must be at most the 4 nodes\. Got 5\."):
        gpnn.partition_graph(ring(4), 5, "learned")
    with pytest.raises(ValueError, match=r"An option of 'learned' must be one of train_mask, assignment, .* Got depth"):
        gpnn.partition_graph(planted, 2, "learned", depth=3)
    pipeline = Pipeline(partition="learned", k=2, schedule_options={"virtual": "graph"})
    with pytest.raises(ValueError, match=r"has no virtual nodes: `virtual` must be None\. Got 'graph'\."):
        pipeline.make_partition(planted)
