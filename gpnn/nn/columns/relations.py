"""Relations: who a node's neighbours are, by edge type and direction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gpnn.graph import Graph
from gpnn.kernels import Operator, aggregate

if TYPE_CHECKING:
    import scipy.sparse

MOST_TYPES = 8  # of a graph with more, edges of all types count as one
MOST_PAIRS = 4  # relations whose every pair is walked; of more, one walk over all edges


@dataclass(frozen=True, eq=False)
class Relations:
    """The neighbours of every node, one operator `[N, N]` per edge type and direction; self-loops are left out.

    Attributes:
        each: rows are receivers, columns senders; reversed relations have them the other way round.
        pairs: the relations that a walk of two steps takes, last step first.
    """

    each: tuple[Operator, ...]
    pairs: tuple[tuple[Operator, Operator], ...]

    @classmethod
    def of(
        cls, graph: Graph, *, num_types: int = 1, directed: bool = False, device: torch.device | str = "cpu"
    ) -> Relations:
        """The relations of a graph.

        Args:
            graph: edges; weights are not used.
            num_types: types told apart; 1: all count as one.
            directed: whether senders and receivers of a node are told apart.
            device: of the operators.

        >>> [operator.col.tolist() for operator in Relations.of(Graph([0, 2], [1, 1], num_nodes=3), directed=True).each]
        [[0, 2], [1, 1]]
        """
        proper = graph.src != graph.dst
        src, dst = graph.src[proper], graph.dst[proper]
        kind = None if num_types == 1 or graph.edge_type is None else graph.edge_type[proper]
        each = []
        for number in range(num_types):
            ends = (src, dst) if kind is None else (src[kind == number], dst[kind == number])
            each.append(_operator(*ends, graph.num_nodes, device))
            if directed:
                each.append(_operator(*ends[::-1], graph.num_nodes, device))
        if len(each) ** 2 <= MOST_PAIRS:
            return cls(tuple(each), tuple((last, first) for last in each for first in each))
        whole = _operator(torch.cat([src, dst]), torch.cat([dst, src]), graph.num_nodes, device) if directed else None
        whole = whole or _operator(src, dst, graph.num_nodes, device)
        return cls(tuple(each), ((whole, whole),))

    @cached_property
    def degrees(self) -> Tensor:
        """Neighbours of each node in each relation, `[N, R]`."""
        return torch.stack([operator.ptr.diff() for operator in self.each], 1)

    def means(self) -> tuple[Operator, ...]:
        """The operators that take means; of no neighbours the mean is zero."""
        return tuple(replace(each, row_scale=1 / each.ptr.diff().clamp(min=1).double()) for each in self.each)

    def aggregates(self, x: Tensor) -> list[Tensor]:
        """Mean, maximum and minimum over the neighbours in each relation, zeros where there are none, `[N, F]` each."""
        found = []
        for operator, mean in zip(self.each, self.means()):
            found += [aggregate(mean, x), aggregate(operator, x, "max"), aggregate(operator, x, "min")]
        return found


def is_directed(graph: Graph) -> bool:
    """Whether some edge lacks its reverse."""
    from gpnn.partition.neighbours import survey

    return not survey(graph.src.numpy(), graph.dst.numpy())[0]


def closed_walks(last: Operator, first: Operator) -> Tensor:
    """How many walks of two steps end where they began, `[N]`: the diagonal of `last · first`.

    >>> forth, back = Relations.of(Graph([0, 2], [1, 1], num_nodes=3), directed=True).each
    >>> closed_walks(forth, back).tolist(), closed_walks(forth, forth).tolist()
    ([0.0, 2.0, 0.0], [0.0, 0.0, 0.0])
    """
    products = to_scipy(last).multiply(to_scipy(first).T.tocsr())
    return torch.from_numpy(np.asarray(products.sum(1)).ravel()).to(last.ptr.device)


def to_scipy(operator: Operator) -> scipy.sparse.csr_array:
    """The matrix that an operator applies, equal entries added up."""
    from scipy.sparse import csr_array, diags_array

    weight = np.ones(operator.num_entries) if operator.weight is None else operator.weight.cpu().double().numpy()
    entries = (weight, operator.col.cpu().numpy(), operator.ptr.cpu().numpy())
    matrix = csr_array(entries, operator.shape, copy=True)  # adding up sorts in place
    matrix.sum_duplicates()
    return matrix if operator.row_scale is None else (diags_array(operator.row_scale.cpu().numpy()) @ matrix).tocsr()


def _operator(src: Tensor, dst: Tensor, num_nodes: int, device: torch.device | str) -> Operator:
    return Operator.from_edges(dst.cpu(), src.cpu(), None, (num_nodes, num_nodes)).to(device)
