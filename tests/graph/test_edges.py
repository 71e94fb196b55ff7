"""The digest of edges: the same for the same edges, another for any other, on the compiled and on torch's way."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
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
