"""Embeddings of a graph that has grown, by hand, and the options of the graph to predict on."""

import numpy as np
import pytest
import torch

from gpnn.build.predict import grow_embedding, with_graph
from gpnn.config import Config
from gpnn.config.sections import DataConfig
from gpnn.graph import Graph
from gpnn.nn.encoder import NodeEmbedding


def embedding(*rows: list[float]) -> NodeEmbedding:
    made = NodeEmbedding(len(rows), len(rows[0]), torch.Generator().manual_seed(0))
    with torch.no_grad():
        made.weight.copy_(torch.tensor(rows))
    return made


def test_known_nodes_keep_theirs_and_new_ones_take_the_mean():
    made = embedding([1.0, 0.0], [3.0, 4.0])
    # node 0 was row 1; node 1 is new, receives from both; node 2 was row 0; node 3 receives from 1, node 4 has none
    graph = Graph([0, 1, 3], [1, 2, 1], num_nodes=5)
    grow_embedding(made, np.array([1, -1, 0, -1, -1]), graph)
    assert made.weight.tolist() == [[3, 4], [2, 2], [1, 0], [2, 2], [0, 0]]
    assert made(5).shape == (5, 2)


def test_a_graph_of_strangers_is_refused():
    with pytest.raises(ValueError, match=r"share nodes with its own 1\. Got 2 nodes, none of them known\."):
        grow_embedding(embedding([1.0]), np.array([-1, -1]), Graph([0], [1], num_nodes=2))


def test_rows_that_the_embedding_lacks_are_refused():
    with pytest.raises(ValueError, match=r"share nodes with its own 1"):
        grow_embedding(embedding([1.0]), np.array([0, 7]), Graph([0], [1], num_nodes=2))


@pytest.mark.parametrize(
    ("trained", "given", "options"),
    [
        (("graph", {"label": "club", "edges": "e.csv"}), ("graph", {}), {"label": "club", "edges": "e.csv"}),
        (("graph", {"label": "club", "edges": "e.csv"}), ("grown", {}), {"label": "club"}),
        (("graph", {"label": "club", "edges": "e.csv"}), ("graph", {"nodes": "n"}), {"label": "club", "nodes": "n"}),
        (("cora", {"split": "random"}), ("cora", {"seed": 1}), {"split": "random", "seed": 1}),
        (("cora", {"split": "random"}), ("citeseer", {}), {}),
    ],
)
def test_options_of_the_run_that_apply_to_another_graph(trained, given, options):
    run = Config(data=DataConfig(trained[0], undirected=True, options=trained[1]))
    found = with_graph(run, DataConfig(given[0], options=given[1])).data
    assert (found.name, found.undirected, dict(found.options)) == (given[0], True, options)
