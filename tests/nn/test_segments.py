"""Sums and softmaxes a graph, against one graph at a time."""

import pytest
import torch

from gpnn.nn.segments import graph_argmax, graph_log_softmax, graph_of_node, graph_sum

PTR = torch.tensor([0, 3, 4, 9])


def values(columns: int = 2) -> torch.Tensor:
    return torch.randn(9, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 30


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    return list(tensor.split(PTR.diff().tolist()))


def test_each_graph_is_alone():
    assert graph_of_node(PTR).tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    torch.testing.assert_close(graph_sum(values(), PTR), torch.stack([part.sum(0) for part in parts(values())]))
    expected = torch.cat([part.log_softmax(0) for part in parts(values())])
    torch.testing.assert_close(graph_log_softmax(values(), PTR), expected)
    starts = [int(start) + part.argmax(0) for start, part in zip(PTR, parts(values()))]
    assert graph_argmax(values(), PTR).equal(torch.stack(starts))


def test_gradients():
    assert torch.autograd.gradcheck(lambda v: graph_log_softmax(v, PTR), values().requires_grad_())
    assert torch.autograd.gradcheck(lambda v: graph_sum(v, PTR), values().requires_grad_())


def test_the_first_of_equals_is_chosen():
    assert graph_argmax(torch.zeros(9, 1), PTR).flatten().tolist() == [0, 3, 4]


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_scores_do_not_overflow(size):
    probabilities = graph_log_softmax(torch.full((9, 1), size), PTR).exp().flatten()
    torch.testing.assert_close(probabilities, (1 / PTR.diff())[graph_of_node(PTR)])
