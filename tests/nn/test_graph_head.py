"""Heads over many small graphs, and the sums and softmaxes over the nodes of each."""

import pytest
import torch

from gpnn.nn import GRAPH_HEADS, GatedSum, NodeSelection
from gpnn.nn.graph_head import graph_argmax, graph_log_softmax, graph_of_node, graph_sum

PTR = torch.tensor([0, 2, 5])


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(5, 4, generator=random), torch.randn(5, 2, generator=random)


@pytest.mark.parametrize("name", GRAPH_HEADS)
def test_graphs_do_not_see_each_other(name):
    head = GRAPH_HEADS[name](4, 2, 3, torch.Generator().manual_seed(1))
    state, annotation = inputs()
    together = head(state, annotation, PTR)
    alone = [head(state[a:b], annotation[a:b], torch.tensor([0, b - a])) for a, b in ((0, 2), (2, 5))]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("name", GRAPH_HEADS)
def test_learns_its_answers(name):
    head = GRAPH_HEADS[name](4, 2, 3, torch.Generator().manual_seed(1))
    state, annotation = inputs()
    answer = torch.tensor([1, 4]) if name == "node" else torch.tensor([2, 0])
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        head.loss(head(state, annotation, PTR), answer).backward()
        optimizer.step()
    scores = head(state, annotation, PTR)
    assert head.loss(scores, answer) < 0.05
    assert head.choose(scores, PTR).equal(answer)


def test_the_gated_sum_by_hand():
    head = GatedSum(4, 2, 3, torch.Generator().manual_seed(1))
    state, annotation = inputs()
    for bias in (head.gate_bias, head.value_bias, head.bias):
        bias.data = torch.linspace(-1, 1, len(bias))
    sums = torch.zeros(2, 4)
    for node, graph in enumerate((0, 0, 1, 1, 1)):
        known = torch.cat([state[node], annotation[node]])
        gate = torch.sigmoid(known @ head.gate + head.gate_bias)
        sums[graph] += gate * torch.tanh(known @ head.value + head.value_bias)
    expected = (torch.tanh(sums) @ head.weight + head.bias).log_softmax(1)
    torch.testing.assert_close(head(state, annotation, PTR), expected)


def test_node_selection_is_a_distribution_over_each_graphs_nodes():
    head = NodeSelection(4, 2, 0, torch.Generator().manual_seed(1))
    scores = head(*inputs(), PTR)
    assert scores.shape == (5,)
    torch.testing.assert_close(scores[:2].exp().sum(), torch.tensor(1.0))
    torch.testing.assert_close(scores[2:].exp().sum(), torch.tensor(1.0))


THREE = torch.tensor([0, 3, 4, 9])


def values(columns: int = 2) -> torch.Tensor:
    return torch.randn(9, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 30


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    return list(tensor.split(THREE.diff().tolist()))


def test_each_graph_is_alone():
    assert graph_of_node(THREE).tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    torch.testing.assert_close(graph_sum(values(), THREE), torch.stack([part.sum(0) for part in parts(values())]))
    expected = torch.cat([part.log_softmax(0) for part in parts(values())])
    torch.testing.assert_close(graph_log_softmax(values(), THREE), expected)
    starts = [int(start) + part.argmax(0) for start, part in zip(THREE, parts(values()))]
    assert graph_argmax(values(), THREE).equal(torch.stack(starts))


def test_gradients():
    assert torch.autograd.gradcheck(lambda v: graph_log_softmax(v, THREE), values().requires_grad_())
    assert torch.autograd.gradcheck(lambda v: graph_sum(v, THREE), values().requires_grad_())


def test_the_first_of_equals_is_chosen():
    assert graph_argmax(torch.zeros(9, 1), THREE).flatten().tolist() == [0, 3, 4]


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_scores_do_not_overflow(size):
    probabilities = graph_log_softmax(torch.full((9, 1), size), THREE).exp().flatten()
    torch.testing.assert_close(probabilities, (1 / THREE.diff())[graph_of_node(THREE)])
