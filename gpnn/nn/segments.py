"""Sums and softmaxes over the nodes of each graph of a disjoint union."""

from __future__ import annotations

import torch
from torch import Tensor


def graph_of_node(ptr: Tensor) -> Tensor:
    """The graph of each node, `[N]`, from where each graph's nodes begin, `[G + 1]`."""
    sizes = ptr.diff()
    return torch.repeat_interleave(torch.arange(len(sizes), device=ptr.device), sizes)


def graph_sum(values: Tensor, ptr: Tensor) -> Tensor:
    """The sum over the nodes of each graph, `[G, d]`, of `values`, `[N, d]`.

    >>> graph_sum(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 2, 3])).tolist()
    [[3.0], [4.0]]
    """
    return values.new_zeros(len(ptr) - 1, *values.shape[1:]).index_add(0, graph_of_node(ptr), values)


def graph_log_softmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """The logarithm of the softmax over the nodes of each graph, `[N, k]`, of `scores`, `[N, k]`.

    >>> graph_log_softmax(torch.zeros(3, 1), torch.tensor([0, 2, 3])).exp().flatten().tolist()
    [0.5, 0.5, 1.0]
    """
    graph = graph_of_node(ptr)
    index = graph[:, None].expand_as(scores)
    shape = (len(ptr) - 1, scores.shape[1])
    largest = scores.new_zeros(shape).scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    shifted = scores - largest[graph]
    return shifted - graph_sum(shifted.exp(), ptr).log()[graph]


def graph_argmax(scores: Tensor, ptr: Tensor) -> Tensor:
    """The node with the highest score in each graph, the first of equals, `[G, k]`; every graph must have a node.

    >>> graph_argmax(torch.tensor([[1.0], [3.0], [2.0]]), torch.tensor([0, 2, 3])).flatten().tolist()
    [1, 2]
    """
    graph = graph_of_node(ptr)
    index = graph[:, None].expand_as(scores)
    shape = (len(ptr) - 1, scores.shape[1])
    largest = scores.new_zeros(shape).scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    nodes = torch.arange(len(graph), device=ptr.device)[:, None].expand_as(scores)
    loses = scores < largest[graph]
    candidates = nodes.masked_fill(loses, len(graph))
    return candidates.new_zeros(shape).scatter_reduce(0, index, candidates, "amin", include_self=False)
