"""Graph: its checks, its transforms, and the errors that name what is wrong."""

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gpnn
from gpnn.graph import Graph, as_graph


def edges(graph: Graph) -> list[tuple[int, int]]:
    return list(zip(graph.src.tolist(), graph.dst.tolist()))


@st.composite
def graphs(draw: st.DrawFn, typed: bool = False) -> Graph:
    num_nodes = draw(st.integers(1, 8))
    ends = st.integers(0, num_nodes - 1)
    pairs = draw(st.lists(st.tuples(ends, ends, st.integers(0, 2)), max_size=25))
    src, dst, kind = ([pair[end] for pair in pairs] for end in range(3))
    return Graph(src, dst, num_nodes, kind if typed else None)


class TestMaking:
    def test_is_public(self) -> None:
        assert gpnn.Graph is Graph

    def test_keeps_multi_edges_and_loops_in_order(self, typed: Graph) -> None:
        assert edges(typed) == [(0, 1), (0, 1), (1, 2), (2, 2)]
        assert typed.num_edges == 4
        assert typed.num_edge_types == 2

    def test_says_what_it_is(self, typed: Graph) -> None:
        assert repr(typed) == "Graph(num_nodes=4, num_edges=4, num_edge_types=2, weighted)"

    def test_counts_degrees(self, typed: Graph) -> None:
        assert typed.in_degree.tolist() == [0, 2, 2, 0]
        assert typed.out_degree.tolist() == [2, 1, 1, 0]

    def test_may_have_no_edges(self) -> None:
        graph = Graph([], [], 3, edge_type=[], edge_weight=[])
        assert graph.num_edges == 0
        assert graph.num_edge_types == 1
        assert graph.src.dtype == torch.int64

    def test_takes_read_only_numpy_arrays(self) -> None:
        src = np.array([0, 1], np.int32)
        src.flags.writeable = False
        assert edges(Graph(src, src, 2)) == [(0, 0), (1, 1)]

    def test_groups_edges_by_either_end(self, typed: Graph) -> None:
        out = typed.out_edges()
        assert (out.ptr.tolist(), out.index.tolist(), out.edge.tolist()) == (
            [0, 2, 3, 4, 4],
            [1, 1, 2, 2],
            [0, 1, 2, 3],
        )
        into = typed.in_edges(with_edge=False)
        assert (into.ptr.tolist(), into.index.tolist(), into.edge) == ([0, 0, 2, 4, 4], [0, 0, 1, 2], None)


class TestRefusing:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([0], [1, 0], 2), r"`src` and `dst` must be equally long\. Got 1 and 2\."),
            (([0, 2], [1, 0], 2), r"`src` must hold node ids from 0 to 1\. Got 2\."),
            (([0, 1], [1, -3], 2), r"`dst` must hold node ids from 0 to 1\. Got -3\."),
            (([0.0, 1.0], [1, 0], 2), r"`src` must hold integers\. Got float32\."),
            (([True], [False], 2), r"`src` must hold integers\. Got bool\."),
            (([[0]], [0], 2), r"`src` must have one dimension\. Got shape \[1, 1\]\."),
            ((["a"], [0], 2), r"`src` must be numbers of one dimension\. Got list\."),
            (([], [], 0), r"`num_nodes` must be an integer of at least 1\. Got 0\."),
            (([], [], 2.5), r"`num_nodes` must be an integer of at least 1\. Got 2\.5\."),
            (([], [], float("inf")), r"`num_nodes` must be an integer of at least 1\. Got inf\."),
            (([], [], "many"), r"`num_nodes` must be an integer of at least 1\. Got 'many'\."),
            (([0], [0], 1, [0, 1]), r"`edge_type` must have one entry for each of the 1 edges\. Got 2\."),
            (([0], [0], 1, [-1]), r"`edge_type` must not be negative\. Got -1\."),
            (([0], [0], 1, [0.5]), r"`edge_type` must hold integers\. Got float32\."),
            (([0], [0], 1, None, [1.0, 2.0]), r"`edge_weight` must have one entry for each of the 1 edges\. Got 2\."),
            (([0, 0], [0, 0], 1, None, [1.0, float("nan")]), r"`edge_weight` must be finite\. Got nan at edge 1\."),
            (([0], [0], 1, None, [[1.0, 2.0]]), r"`edge_weight` must have one dimension\. Got shape \[1, 2\]\."),
        ],
    )
    def test_names_the_offending_value(self, arguments: tuple, message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}$"):
            Graph(*arguments)

    def test_refuses_what_is_no_graph(self) -> None:
        with pytest.raises(ValueError, match=r"A graph must be a gpnn.Graph, .* Got list\."):
            as_graph([0, 1])

    def test_refuses_an_unknown_reduction(self, typed: Graph) -> None:
        with pytest.raises(ValueError, match=r"`reduce` must be one of sum, mean, max, first\. Got 'min'\."):
            typed.coalesce("min")

    def test_refuses_an_empty_union(self) -> None:
        with pytest.raises(ValueError, match=r"`graphs` must hold at least one graph\. Got none\."):
            Graph.union([])

    @pytest.mark.parametrize(
        ("nodes", "message"),
        [
            ([0, 4], r"`nodes` must hold node ids from 0 to 3\. Got 4\."),
            ([-1], r"`nodes` must hold node ids from 0 to 3\. Got -1\."),
            ([1, 2, 1], r"`nodes` must be distinct\. Got 1 repeated\."),
            ([True, False], r"A node mask must have 4 entries\. Got 2\."),
            ([1.0], r"`nodes` must hold integers\. Got float32\."),
        ],
    )
    def test_names_a_wrong_selection(self, typed: Graph, nodes: list, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            typed.subgraph(torch.tensor(nodes))


class TestTransforms:
    @pytest.mark.parametrize(("reduce", "weight"), [("sum", 5.0), ("mean", 2.5), ("max", 3.0), ("first", 3.0)])
    def test_coalesces_weights(self, reduce: str, weight: float) -> None:
        graph = Graph([1, 0, 1], [0, 1, 0], 2, edge_weight=[3.0, 1.0, 2.0]).coalesce(reduce)
        assert edges(graph) == [(0, 1), (1, 0)]
        assert graph.edge_weight is not None
        assert graph.edge_weight.tolist() == [1.0, weight]

    def test_coalesces_types_apart(self, typed: Graph) -> None:
        assert typed.coalesce().num_edges == 4

    @pytest.mark.parametrize("reduce", ["sum", "mean", "max", "first"])
    def test_coalesces_nothing(self, reduce: str) -> None:
        assert Graph([], [], 2, edge_weight=[]).coalesce(reduce).num_edges == 0

    def test_joins_every_edge_by_its_reverse(self) -> None:
        graph = Graph([0, 2, 2, 1], [1, 2, 1, 0], 3, edge_type=[0, 0, 1, 0], edge_weight=[1.0, 2.0, 3.0, 9.0])
        both = graph.to_undirected()
        assert both.edge_type is not None
        assert both.edge_weight is not None
        assert edges(both) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)]
        assert both.edge_type.tolist() == [0, 0, 1, 1, 0]
        assert both.edge_weight.tolist() == [1.0, 9.0, 3.0, 3.0, 2.0]  # an edge that was there keeps its weight

    def test_selects_edges_by_id_or_mask(self, typed: Graph) -> None:
        assert edges(typed.select_edges(torch.tensor([3, 0]))) == [(2, 2), (0, 1)]
        kept = typed.select_edges(torch.tensor([False, True, False, False]))
        assert kept.edge_weight is not None
        assert kept.edge_weight.tolist() == [1.0]

    def test_induces_a_subgraph_in_the_order_given(self, typed: Graph) -> None:
        part = typed.subgraph(torch.tensor([2, 1]))
        assert part.num_nodes == 2
        assert edges(part) == [(1, 0), (0, 0)]
        assert part.edge_type is not None
        assert part.edge_type.tolist() == [1, 0]
        assert edges(typed.subgraph(torch.tensor([False, True, True, False]))) == [(0, 1), (1, 1)]

    def test_unites_graphs(self, typed: Graph) -> None:
        union, ptr = Graph.union([Graph([0], [1], 2), typed, networkx.path_graph(2)])
        assert ptr.tolist() == [0, 2, 6, 8]
        assert edges(union) == [(0, 1), (2, 3), (2, 3), (3, 4), (4, 4), (6, 7), (7, 6)]
        assert union.edge_type is not None
        assert union.edge_weight is not None
        assert union.edge_type.tolist() == [0, 0, 1, 1, 0, 0, 0]
        assert union.edge_weight.tolist() == [1.0, 0.5, 1.0, 2.0, 4.0, 1.0, 1.0]

    def test_unites_plain_graphs_plainly(self) -> None:
        union, _ = Graph.union([Graph([0], [0], 1)] * 2)
        assert union.edge_type is None
        assert union.edge_weight is None

    def test_numbers_components_by_their_first_node(self) -> None:
        graph = Graph([4, 5, 3], [1, 3, 3], 6)
        assert graph.components().tolist() == [0, 1, 2, 3, 1, 3]

    @given(graphs())
    @settings(max_examples=60, deadline=None)
    def test_components_are_scipy_s(self, graph: Graph) -> None:
        from scipy.sparse.csgraph import connected_components

        _, wanted = connected_components(graph.to_scipy(weighted=False), connection="weak")
        labels = graph.components().numpy()
        assert ((labels[:, None] == labels) == (wanted[:, None] == wanted)).all()
        first = [int(np.flatnonzero(labels == label)[0]) for label in range(labels.max() + 1)]
        assert first == sorted(first)

    @given(graphs(typed=True))
    @settings(max_examples=40, deadline=None)
    def test_undirected_holds_each_edge_and_its_reverse_once(self, graph: Graph) -> None:
        assert graph.edge_type is not None
        wanted = set(zip(graph.src.tolist(), graph.dst.tolist(), graph.edge_type.tolist()))
        wanted |= {(v, u, kind) for u, v, kind in wanted}
        both = graph.to_undirected()
        assert both.edge_type is not None
        assert list(zip(both.src.tolist(), both.dst.tolist(), both.edge_type.tolist())) == sorted(wanted)

    @given(graphs(typed=True), st.randoms(use_true_random=False))
    @settings(max_examples=40, deadline=None)
    def test_subgraph_is_networkx_s(self, graph: Graph, random) -> None:  # type: ignore[no-untyped-def]
        nodes = random.sample(range(graph.num_nodes), random.randint(1, graph.num_nodes))
        part = graph.subgraph(torch.tensor(nodes))
        back = sorted((nodes[u], nodes[v]) for u, v in edges(part))
        assert back == sorted((u, v) for u, v in edges(graph) if u in nodes and v in nodes)
