import numpy as np
import pyarrow
import pytest
import torch
from torch_geometric.data import Data

from gpnn.data.features import csr_tensor
from gpnn.graph import Graph
from gpnn.nn.encoder import NodeEmbedding
from gpnn.partition import Partition
from gpnn.run.known_nodes import KnownNodes, RowDigests, digest_rows, grow_embedding

PATH = [[0, 1, 2, 3], [1, 2, 3, 4]]
PART = Partition([0, 0, 1, 1, 2], 3)


def path(num_nodes: int = 5, *also: tuple[int, int], x: float = 1.0, names: list | None = None) -> Data:
    """The path 0 → 1 → … → 4, further edges and nodes, and a feature for each node."""
    edges = torch.tensor([*zip(*PATH), *also]).T
    named = {} if names is None else {"node_name": np.array(names, object)}
    return Data(edge_index=edges, x=x * torch.arange(num_nodes).float()[:, None], num_nodes=num_nodes, **named)


def test_known_nodes_keep_their_subgraph_in_whatever_order_they_stand():
    known = KnownNodes.of(path(names=list("abcde")), PART)
    later = path(names=list("dxeba"))
    assert known.find(later).tolist() == [3, -1, 4, 1, 0]
    assert known.partition(later).labels.tolist() == [1, 1, 2, 0, 0]  # x is between d and e: the lower number


def test_rows_of_the_same_graph_or_one_that_grew_at_its_end_are_known():
    known = KnownNodes.of(path(), PART)
    assert known.find(path()).tolist() == [0, 1, 2, 3, 4]
    grown = path(7, (5, 4), (0, 3))  # a new edge between known nodes, too
    assert known.find(grown).tolist() == [0, 1, 2, 3, 4, -1, -1]
    assert known.partition(grown).labels.tolist() == [0, 0, 1, 1, 2, 2, 0]
    assert known.find(path(x=2.0)).tolist() == [0, 1, 2, 3, 4]  # other features, the same edges


def test_an_entirely_new_graph_is_not_known():
    known = KnownNodes.of(path(), PART)
    for data in (path(5, (0, 3), x=2.0), path(4, x=2.0), path(3)):
        assert not (known.find(data) >= 0).any()
        assert known.partition(data) is None


def test_features_that_are_all_alike_tell_no_node():
    known = KnownNodes.of(path(x=0.0), PART)
    assert (known.find(path(x=0.0)) >= 0).all()
    assert not (known.find(path(5, (0, 3), x=0.0)) >= 0).any()


def test_without_features_rows_are_the_nodes_that_embeddings_belong_to():
    known = KnownNodes.of(Data(edge_index=torch.tensor(PATH), num_nodes=5), PART)
    later = Data(edge_index=torch.tensor([[4], [0]]), num_nodes=6)
    assert known.find(later).tolist() == [0, 1, 2, 3, 4, -1]


def embedding(*rows: list[float]) -> NodeEmbedding:
    made = NodeEmbedding(len(rows), len(rows[0]), torch.Generator().manual_seed(0))
    with torch.no_grad():
        made.weight.copy_(torch.tensor(rows))
    return made


def test_known_nodes_keep_theirs_and_new_ones_take_the_mean():
    made = embedding([1.0, 0.0], [3.0, 4.0])
    # node 0 was row 1; node 1 is new, receives from both; node 2 was row 0; node 3 receives from 1, node 4 has none
    graph = Graph([0, 1, 3], [1, 2, 1], num_nodes=5)
    grown = grow_embedding(made, np.array([1, -1, 0, -1, -1]), graph)
    assert grown(5).tolist() == [[3, 4], [2, 2], [1, 0], [2, 2], [0, 0]]
    assert made(2).tolist() == [[1, 0], [3, 4]]


def test_a_graph_of_strangers_is_refused():
    with pytest.raises(ValueError, match=r"share nodes with its own 1\. Got 2 nodes, none of them known\."):
        grow_embedding(embedding([1.0]), np.array([-1, -1]), Graph([0], [1], num_nodes=2))


def test_rows_that_the_embedding_lacks_are_refused():
    with pytest.raises(ValueError, match=r"share nodes with its own 1"):
        grow_embedding(embedding([1.0]), np.array([0, 7]), Graph([0], [1], num_nodes=2))


def test_rows_of_sparse_features_are_those_of_the_matrix_cut_short():
    ptr, columns, values = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1]), np.arange(4, dtype=np.float32)
    whole = csr_tensor(ptr, columns, values, (3, 2))
    assert digest_rows(whole, 2) == digest_rows(csr_tensor(ptr[:3], columns[:3], values[:3], (2, 2)), 2)
    assert digest_rows(whole, 2) != digest_rows(csr_tensor(ptr[:3], columns[:3], values[1:], (2, 2)), 2)


def test_a_table_holds_them():
    known = KnownNodes.of(path(names=list("abcde")), PART)
    read = KnownNodes.from_table(known.to_table(), None, "nodes.parquet")
    assert (read.ids.to_pylist(), read.labels.tolist()) == (list("abcde"), [0, 0, 1, 1, 2])
    without = KnownNodes.of(path(), None)
    assert without.to_table().column_names == ["node"]
    assert without.partition(path()) is None


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"id": [0]}, r"must have a column node\. Got \['id'\]"),
        ({"node": [0], "subgraph": ["a"]}, r"column subgraph: must hold whole numbers\. Got string"),
        ({"node": [0], "subgraph": pyarrow.array([None], "int64")}, "must hold whole numbers"),
        ({"node": [0], "subgraph": [-1]}, r"must lie from 0 to \d+\. Got -1"),
        ({"node": [0], "subgraph": [1 << 40]}, r"must lie from 0 to \d+\. Got 1099511627776"),
    ],
)
def test_a_table_that_does_not_is_refused(columns, sentence):
    with pytest.raises(ValueError, match=f"nodes.parquet.*{sentence}"):
        KnownNodes.from_table(pyarrow.table(columns), None, "nodes.parquet")


@pytest.mark.parametrize("value", [3, {"edges": "a"}, {"edges": "a", "features": None, "more": 1}])
def test_digests_that_are_not_are_refused(value):
    with pytest.raises(ValueError, match=r"model\.safetensors must hold digests of edges and features\. Got"):
        RowDigests.parse(value, "model.safetensors")
