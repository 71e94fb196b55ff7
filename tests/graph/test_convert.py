"""Conversion from and to PyG, scipy and networkx: what goes in comes out again."""

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from torch_geometric.data import Data, HeteroData

from gpnn.graph import Graph, as_graph
from tests.oracle.small_graphs import graphs


def same(first: Graph, second: Graph) -> bool:
    columns = ("src", "dst", "edge_type", "edge_weight")
    pairs = [(getattr(first, name), getattr(second, name)) for name in columns]
    return first.num_nodes == second.num_nodes and all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs
    )


def edges(graph: Graph) -> list[tuple[int, int]]:
    return list(zip(graph.src.tolist(), graph.dst.tolist()))


class TestData:
    def test_comes_back_from_data(self, typed: Graph) -> None:
        assert same(Graph.from_data(typed.to_data()), typed)
        assert same(as_graph(typed.to_data()), typed)

    def test_goes_plain_when_it_is_plain(self) -> None:
        data = Graph([0], [1], 3).to_data()
        assert sorted(data.keys()) == ["edge_index", "num_nodes"]

    def test_takes_one_floating_attribute_as_the_weight(self) -> None:
        edge_index = torch.tensor([[0, 1], [1, 0]])
        for attribute in (torch.tensor([0.5, 2.0]), torch.tensor([[0.5], [2.0]])):
            graph = Graph.from_data(Data(edge_index=edge_index, edge_attr=attribute, num_nodes=2))
            assert graph.edge_weight is not None
            assert graph.edge_weight.tolist() == [0.5, 2.0]

    @pytest.mark.parametrize("attribute", [torch.tensor([1, 2]), torch.ones(2, 3)])
    def test_leaves_other_attributes_alone(self, attribute: torch.Tensor) -> None:
        data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=attribute, num_nodes=2)
        assert Graph.from_data(data).edge_weight is None

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (Data(), r"`data` must know its number of nodes \(x, y or num_nodes\)\. Got none\."),
            (Data(num_nodes=2), r"`data` must have `edge_index`\. Got none\."),
            (
                Data(num_nodes=2, edge_index=torch.zeros(3, 1).long()),
                r"`edge_index` must have shape \[2, E\]\. Got \[3, 1\]\.",
            ),
            (Data(num_nodes=2, edge_index=torch.tensor([[0], [2]])), r"`dst` must hold node ids from 0 to 1\. Got 2\."),
        ],
    )
    @pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes'")
    def test_names_what_data_lacks(self, data: Data, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Graph.from_data(data)


class TestHetero:
    @pytest.fixture
    def hetero(self) -> HeteroData:
        data = HeteroData()
        data["paper"].num_nodes = 2
        data["author"].num_nodes = 3
        data["author", "writes", "paper"].edge_index = torch.tensor([[0, 2], [1, 0]])
        data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
        return data

    def test_numbers_node_types_one_after_the_other(self, hetero: HeteroData) -> None:
        graph = as_graph(hetero)
        assert graph.num_nodes == 5
        assert edges(graph) == [(2, 1), (4, 0), (0, 1)]
        assert graph.edge_type is not None
        assert graph.edge_type.tolist() == [0, 0, 1]
        assert graph.edge_weight is None

    def test_keeps_weights_and_fills_the_others_with_one(self, hetero: HeteroData) -> None:
        hetero["paper", "cites", "paper"].edge_weight = torch.tensor([0.25])
        weight = as_graph(hetero).edge_weight
        assert weight is not None
        assert weight.tolist() == [1.0, 1.0, 0.25]

    def test_refuses_an_id_of_the_next_type(self, hetero: HeteroData) -> None:
        hetero["paper", "cites", "paper"].edge_index = torch.tensor([[0], [2]])
        with pytest.raises(ValueError, match=r"'cites', 'paper'\) must hold paper ids from 0 to 1\. Got 2\."):
            as_graph(hetero)

    @pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes'")
    def test_refuses_a_type_of_unknown_size(self) -> None:
        data = HeteroData()
        data["paper"].name = "papers"
        with pytest.raises(ValueError, match=r"must know its number of 'paper' nodes"):
            as_graph(data)

    def test_refuses_no_edges_at_all(self) -> None:
        data = HeteroData()
        data["paper"].num_nodes = 2
        with pytest.raises(ValueError, match=r"`data` must have at least one edge type\. Got none\."):
            as_graph(data)


class TestScipy:
    def test_reads_rows_as_senders(self) -> None:
        graph = as_graph(scipy.sparse.csr_matrix(np.array([[0, 1], [0, 1]])))
        assert edges(graph) == [(0, 1), (1, 1)]
        assert graph.edge_weight is None

    def test_keeps_values_as_weights(self) -> None:
        graph = as_graph(scipy.sparse.coo_array(([2.0, 1.0], ([0, 1], [1, 0])), (2, 2)))
        assert graph.edge_weight is not None
        assert graph.edge_weight.tolist() == [2.0, 1.0]
        assert graph.edge_weight.dtype == torch.float64

    def test_keeps_repeated_entries_apart(self) -> None:
        graph = as_graph(scipy.sparse.coo_matrix(([1, 1], ([0, 0], [1, 1])), (2, 2)))
        assert edges(graph) == [(0, 1), (0, 1)]

    def test_adds_parallel_edges_up(self, typed: Graph) -> None:
        assert typed.to_scipy().toarray()[0, 1] == 1.5
        assert typed.to_scipy(weighted=False).toarray()[0, 1] == 2

    def test_refuses_a_rectangle(self) -> None:
        with pytest.raises(ValueError, match=r"An adjacency matrix must be square\. Got shape \(2, 3\)\."):
            as_graph(scipy.sparse.csr_matrix((2, 3)))

    @given(graphs())
    @settings(max_examples=30, deadline=None)
    def test_comes_back_without_its_multiplicities(self, graph: Graph) -> None:
        distinct = graph.coalesce()
        assert same(as_graph(distinct.to_scipy()), distinct)


class TestNetworkx:
    def test_comes_back(self, typed: Graph) -> None:
        assert same(as_graph(typed.to_networkx()), typed)

    def test_doubles_undirected_edges_and_not_loops(self) -> None:
        assert edges(as_graph(networkx.Graph([(0, 1), (1, 1)]))) == [(0, 1), (1, 0), (1, 1)]

    def test_integers_are_rows_whatever_order_they_came_in(self) -> None:
        met_late = networkx.Graph([(2, 3), (3, 0), (0, 1)])
        matrix = networkx.to_scipy_sparse_array(met_late, nodelist=range(4))
        assert list(met_late.nodes) != [0, 1, 2, 3]
        assert same(as_graph(met_late), as_graph(matrix))
        assert same(as_graph(networkx.relabel_nodes(met_late, {n: np.int64(n) for n in range(4)})), as_graph(matrix))

    def test_other_names_need_the_node_of_each_row(self) -> None:
        graph = networkx.Graph([("b", "a"), ("c", "b")])
        wanted = [(0, 1), (1, 0), (1, 2), (2, 1)]
        assert edges(Graph.from_networkx(graph, nodes=["a", "b", "c"])) == wanted
        assert edges(Graph.from_networkx(graph, nodes={"b": 1, "c": 2, "a": 0})) == wanted
        alone = Graph.from_networkx(networkx.Graph([(0, 2)]), nodes=range(4))
        assert (alone.num_nodes, edges(alone)) == (4, [(0, 2), (2, 0)])

    @pytest.mark.parametrize("nodes", [["a", "b"], [0, 2], [1, 2], [-1, 0], [0.0, 1.0], [False, True]])
    def test_refuses_names_that_are_no_rows(self, nodes: list) -> None:
        refused = r"must have the nodes 0 to 1, which are the rows.*from_networkx\(graph, nodes=names\)`\. Got '"
        with pytest.raises(ValueError, match=refused):
            as_graph(networkx.Graph([tuple(nodes)]))

    @pytest.mark.parametrize(
        ("nodes", "message"),
        [
            (["a"], r"must name every node of the graph\. Got none for 'b'\."),
            (["a", "b", "a"], r"must give each of the rows 0 to 2 to one node"),
            ({"a": 0, "b": 2}, r"must give each of the rows 0 to 1 to one node"),
        ],
    )
    def test_refuses_rows_that_do_not_fit(self, nodes, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Graph.from_networkx(networkx.Graph([("a", "b")]), nodes=nodes)

    def test_fills_missing_attributes(self) -> None:
        graph = networkx.DiGraph()
        graph.add_edge(0, 1, weight=3)
        graph.add_edge(1, 0, type=2)
        made = as_graph(graph)
        assert made.edge_weight is not None
        assert made.edge_type is not None
        assert (made.edge_weight.tolist(), made.edge_type.tolist()) == ([3.0, 1.0], [0, 2])
