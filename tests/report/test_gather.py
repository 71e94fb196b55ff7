import numpy as np
import pytest
import torch

from gpnn.report.gather import MAX_SAMPLE, draw_sample


def test_a_sample_is_distinct_and_the_same_again():
    nodes = draw_sample(5000, seed=2)
    assert len(nodes.unique()) == MAX_SAMPLE
    assert torch.equal(nodes, draw_sample(5000, seed=2))
    assert torch.equal(draw_sample(10, seed=2), torch.arange(10))


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_names_are_the_users_own(inputs, kind):
    data = inputs.data.clone()
    data.node_name = kind(range(100, 190))
    record = inputs.gather(data=data)
    assert record.sample.facts.names == record.small.facts.names == [str(number) for number in range(100, 190)]
    assert inputs.gather().sample.facts.names[:2] == ["0", "1"]


def test_a_process_with_the_whole_graph_has_no_shares(record):
    assert record.shares == []
    assert record.quotient.num_nodes == record.small.graph.num_nodes == record.sample.num_nodes == 90
