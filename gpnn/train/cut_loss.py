"""Losses of a soft partition: how much it cuts, and how uneven it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.nn.soft_schedule import SoftSchedule


class CutEdges(NamedTuple):
    """The edges that can be cut: those between two nodes; direction, type and weight play no role.

    Attributes:
        between: which edges join two nodes, `[E]`.
        degree: half of the edge ends at each node, `[N]`; they sum to the number of edges.
    """

    between: Tensor
    degree: Tensor

    @classmethod
    def of(cls, schedule: SoftSchedule) -> CutEdges:
        """The edges of a soft schedule."""
        between = schedule.sender != schedule.receiver
        ends = torch.cat([schedule.sender[between], schedule.receiver[between]])
        return cls(between, torch.bincount(ends, minlength=schedule.num_nodes) / 2)


def mincut(edges: CutEdges, inside: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    r"""The relaxed normalised cut, and how far the subgraphs are from disjoint and equal (Bianchi et al. 2020).

    .. math::
        1 - \frac{\mathrm{tr}(S^T A S)}{\mathrm{tr}(S^T D S)}, \qquad
        \left\| \frac{S^T S}{\|S^T S\|_F} - \frac{I_K}{\sqrt K} \right\|_F

    Args:
        edges: those that can be cut.
        inside: the probability of each edge to be inside, `[E]`.
        probabilities: S, `[N, K]`.
    """
    volume = edges.degree.to(probabilities) @ probabilities.square().sum(1)
    cut = 1 - inside[edges.between].sum() / volume.clamp(min=1)
    overlap = probabilities.T @ probabilities
    even = torch.eye(len(overlap), dtype=overlap.dtype, device=overlap.device) / len(overlap) ** 0.5
    return cut, (overlap / overlap.norm() - even).norm()


def dmon(edges: CutEdges, inside: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    r"""The negative modularity, and how uneven the sizes are (Tsitsulin et al. 2023); arguments as :func:`mincut`.

    .. math::
        -\frac{1}{m} \mathrm{tr}(S^T (A - d d^T / m) S), \qquad
        \frac{\sqrt K}{N} \Big\| \sum_i S_i \Big\| - 1
    """
    num_edges = edges.degree.sum().clamp(min=1)
    expected = (edges.degree.to(probabilities) @ probabilities).square().sum() / num_edges
    sizes = probabilities.sum(0)
    uneven = probabilities.shape[1] ** 0.5 / len(probabilities) * sizes.norm() - 1
    return (expected - inside[edges.between].sum()) / num_edges, uneven


CUT_LOSSES: dict[str, Callable[[CutEdges, Tensor, Tensor], tuple[Tensor, Tensor]]] = {"mincut": mincut, "dmon": dmon}
