"""The digest of edges: the same for the same edges, another for any other, on the compiled and on torch's way."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.graph import as_graph
from gpnn.graph import edges as module
from gpnn.graph.edges import digest_edges, sum_of_hashes
from tests.oracle.engine_cases import multigraph
from tests.oracle.small_graphs import partitioned_graphs

FIELDS = ("src", "dst", "edge_type", "edge_weight")


@settings(max_examples=50, deadline=None)
@given(case=partitioned_graphs(), seed=st.integers(0, 100))
def test_order_counts_in_the_list_alone(case: tuple[Graph, list[int]], seed: int) -> None:
    graph, _ = case
    order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(seed))
    turned = graph.select_edges(order)
    assert turned.digest().edges == graph.digest().edges
    same = all(torch.equal(getattr(turned, name), getattr(graph, name)) for name in ("src", "dst"))
    assert (turned.digest() == graph.digest()) == same


@pytest.mark.parametrize("name", FIELDS)
def test_every_single_change_is_seen(name: str) -> None:
    graph = multigraph()
    before = graph.digest()
    values = getattr(graph, name)
    for edge in range(graph.num_edges):
        kept = values[edge].clone()
        values[edge] += 1
        assert graph.digest().edges != before.edges
        assert graph.digest().listed != before.listed
        values[edge] = kept
    assert graph.digest() == before


def test_two_edges_that_change_places_are_seen() -> None:
    graph = multigraph(weighted=False, num_types=1)
    before, (first, second) = graph.digest(), (0, 5)
    for values in (graph.src, graph.dst):
        values[[first, second]] = values[[second, first]]
    assert graph.digest().edges == before.edges
    assert graph.digest().listed != before.listed


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = multigraph()
    whole = graph.digest()
    monkeypatch.setattr(module, "CHUNK", 7)
    assert graph.digest() == whole


def test_torch_gives_what_the_loop_gives() -> None:
    random = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(2**31, (5000,), generator=random) for _ in range(2))
    assert sum_of_hashes(src, dst) == digest_edges(src, dst, None, None).edges
    assert sum_of_hashes(src.int(), dst) == digest_edges(src.int(), dst, None, None).edges
    assert sum_of_hashes(src[:0], dst[:0]) == digest_edges(src[:0], dst[:0], None, None).edges == 0


def test_the_type_of_numbers_does_not_matter() -> None:
    graph = multigraph()
    assert graph.edge_weight is not None
    narrow = graph.edge_weight.float()
    columns = (graph.src, graph.dst, graph.edge_type)
    assert digest_edges(*columns, narrow) == digest_edges(*columns, narrow.double()[:, None])


def both(*, symmetric: bool, weighted: bool = False) -> tuple[Graph, Graph]:
    """The same multigraph as rows and as an edge list sorted by receiver, then sender."""
    rng = np.random.default_rng(0)
    src, dst = torch.from_numpy(rng.integers(0, 9, (2, 40)))
    graph = Graph(src, dst, 11)
    if symmetric:
        graph = Graph(torch.cat([src, dst]), torch.cat([dst, src]), 11)
    graph = graph.select_edges(torch.from_numpy(np.lexsort((graph.src, graph.dst))))
    kind = torch.arange(graph.num_edges) % 3 if weighted else None
    weight = torch.rand(graph.num_edges) if weighted else None
    graph = Graph(graph.src, graph.dst, 11, kind, weight)
    ptr, col, _ = (None if each is None else torch.from_numpy(each) for each in graph.in_edges(with_edge=False))
    out = None if symmetric else tuple(map(torch.from_numpy, graph.out_edges(with_edge=False)[:2]))
    return graph, Graph.from_csr(ptr, col, symmetric=symmetric, out=out, edge_type=kind, edge_weight=weight)


@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_and_edge_list_agree(symmetric):
    listed, rows = both(symmetric=symmetric, weighted=not symmetric)
    assert repr(rows) == repr(listed)
    assert rows.digest() == listed.digest()
    assert torch.equal(rows.in_degree, listed.in_degree)
    assert torch.equal(rows.out_degree, listed.out_degree)
    for found, wanted in (
        (rows.out_edges(with_edge=False), listed.out_edges(with_edge=False)),
        (rows.in_edges(), listed.in_edges()),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted) if b is not None)
    assert "src" not in vars(rows)  # nothing so far needed the edge list
    assert torch.equal(rows.src, listed.src)
    assert torch.equal(rows.dst, listed.dst)
    assert np.array_equal(rows.out_edges().edge, listed.out_edges().edge)
    assert torch.equal(rows.components(), listed.components())
    with pytest.raises(AttributeError, match="has no attribute 'edges'"):
        rows.edges  # noqa: B018


def test_the_digest_of_many_chunks(monkeypatch):
    monkeypatch.setattr("gpnn.graph.edges.CHUNK", 3)
    listed, rows = both(symmetric=False, weighted=True)
    assert rows.digest() == listed.digest()


def test_arrays_are_shared_and_data_gives_them():
    from torch_geometric.data import Data

    _, rows = both(symmetric=True)
    assert rows.rows.col.data_ptr() == Graph.from_csr(rows.rows.ptr, rows.rows.col).rows.col.data_ptr()
    assert as_graph(Data(num_nodes=11, graph=rows)) is rows


def test_arrays_that_are_not_rows():
    ptr, col = torch.tensor([0, 1, 2]), torch.tensor([0, 1], dtype=torch.int32)
    with pytest.raises(ValueError, match=r"`col` must hold node ids from 0 to 1. Got 2."):
        Graph.from_csr(ptr, col + 1)
    with pytest.raises(ValueError, match=r"`ptr` of rows must begin at 0 and end at the 3 edges. Got 0 and 2."):
        Graph.from_csr(ptr, torch.tensor([0, 1, 1]))
    with pytest.raises(ValueError, match=r"`ptr` of rows must not fall"):
        Graph.from_csr(torch.tensor([0, 3, 2]), col)
    with pytest.raises(ValueError, match=r"`col` of rows must be a tensor of int32 or int64, \[2\]. Got torch.float32"):
        Graph.from_csr(ptr, col.float())
    with pytest.raises(ValueError, match=r"`edge_weight` must have one entry for each of the 2 edges. Got 3."):
        Graph.from_csr(ptr, col, edge_weight=torch.ones(3))
