"""Cut and balance of soft partitions against dense matrices, and at partitions worked out by hand."""

import pytest
import torch
from torch import Tensor

from gpnn import Graph
from gpnn.nn.soft_schedule import SoftSchedule
from gpnn.schedule.partitioned import partitioned_phases
from gpnn.train.cut_loss import CUT_LOSSES, CutEdges, dmon, mincut
from tests.oracle.small_graphs import ring


def losses(name: str, graph: Graph, s: Tensor) -> tuple[float, float]:
    schedule = SoftSchedule.of(graph, partitioned_phases(), 1)
    cut, balance = CUT_LOSSES[name](CutEdges.of(schedule), schedule.inside(s), s)
    return float(cut), float(balance)


def dense(name: str, graph: Graph, s: Tensor) -> tuple[float, float]:
    """The equations of the papers, of a symmetric graph."""
    size, k = s.shape
    a = torch.zeros(size, size, dtype=s.dtype).index_put((graph.src, graph.dst), torch.ones(1).to(s), accumulate=True)
    a.fill_diagonal_(0)
    d = a.sum(1)
    if name == "mincut":
        within = torch.trace(s.T @ a @ s) / torch.trace(s.T @ torch.diag(d) @ s)
        overlap = s.T @ s
        return float(1 - within), float((overlap / overlap.norm() - torch.eye(k) / k**0.5).norm())
    modularity = torch.trace(s.T @ (a - torch.outer(d, d) / d.sum()) @ s) / d.sum()
    return -float(modularity), float(k**0.5 / size * s.sum(0).norm() - 1)


@pytest.mark.parametrize("name", CUT_LOSSES)
def test_the_equations(name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    src, dst = torch.randint(7, (2, 15), generator=generator)
    graph = Graph(torch.cat([src, dst]), torch.cat([dst, src]), num_nodes=7)  # with loops and repeated edges
    s = torch.randn(7, 3, dtype=torch.float64, generator=generator).softmax(1)
    assert losses(name, graph, s) == pytest.approx(dense(name, graph, s), abs=1e-6)


def test_a_ring_cut_in_two() -> None:
    s = torch.tensor([[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4)
    assert losses("mincut", ring(8), s) == pytest.approx((2 / 8, 0), abs=1e-6)
    assert losses("dmon", ring(8), s) == pytest.approx((-(6 / 8 - 1 / 2), 0), abs=1e-6)


def test_one_subgraph_for_all_is_the_least_even() -> None:
    s = torch.tensor([[1.0, 0.0]] * 8)
    assert losses("mincut", ring(8), s) == pytest.approx((0, (2 - 2**0.5) ** 0.5), abs=1e-6)
    assert losses("dmon", ring(8), s) == pytest.approx((0, 2**0.5 - 1), abs=1e-6)


@pytest.mark.parametrize("loss", [mincut, dmon])
def test_a_graph_without_edges(loss) -> None:  # type: ignore[no-untyped-def]
    schedule = SoftSchedule.of(Graph([], [], num_nodes=2), partitioned_phases(), 1)
    s = torch.tensor([[0.5, 0.5], [0.2, 0.8]], requires_grad=True)
    cut, balance = loss(CutEdges.of(schedule), schedule.inside(s), s)
    (cut + balance).backward()
    assert s.grad is not None
    assert s.grad.isfinite().all()
