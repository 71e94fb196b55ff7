"""The options that Planetoid's variants need where most nodes have no features of their own, as on NELL."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch_geometric.data import Data

from experiments.baselines import fit_predict
from experiments.baselines.contexts import Triples
from experiments.baselines.planetoid import NodeTable, loss_against_all, loss_against_drawn
from experiments.baselines.planetoid_inductive import _learnt_nodes

SMALL = {"steps": 100, "label_batches": 10, "walk_batches": 40}


def test_nodes_that_share_a_feature_are_found_by_hand() -> None:
    x = np.array([[1, 0, 0, 0], [2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 3]], np.float32)
    assert _learnt_nodes(csr_matrix(x), "shared").tolist() == [0, 1]  # 2 and 4 have a column each, 3 has none
    assert _learnt_nodes(csr_matrix(x), "all").tolist() == [0, 1, 2, 3, 4]
    assert _learnt_nodes(csr_matrix(np.eye(3, dtype=np.float32)), "shared").tolist() == [0, 1, 2]  # nobody shares


def test_a_stored_zero_is_no_feature() -> None:
    x = csr_matrix((np.array([1, 0, 1, 1], np.float32), ([0, 1, 1, 2], [0, 0, 1, 1])), shape=(3, 2))
    assert _learnt_nodes(x, "shared").tolist() == [1, 2]


def test_without_features_the_transductive_variant_does_not_read_them(planted: Data) -> None:
    options = {"steps": 100, "label_pairs": 2000, "walk_rounds": 20, "context_rate": 0.05}
    bare = planted.clone()
    bare.x, bare.num_nodes = None, planted.num_nodes
    found = fit_predict("planetoid_transductive", planted, seed=1, use_features=False, **options)
    assert torch.equal(found, fit_predict("planetoid_transductive", bare, seed=1, **options))
    assert not torch.equal(found, fit_predict("planetoid_transductive", planted, seed=1, **options))


def test_shared_is_all_where_every_node_shares_a_feature(planted: Data) -> None:
    data = planted.clone()
    data.x = torch.cat([planted.x.to_dense(), torch.ones(planted.num_nodes, 1)], 1)
    every = [
        fit_predict("planetoid_inductive", data, seed=1, context_nodes=which, **SMALL) for which in ("all", "shared")
    ]
    assert torch.equal(*every)


def test_adaptive_steps_learn_from_large_counts_beside_bare_nodes(planted: Data) -> None:
    """Counts ten times as large, and four in five nodes with a column of their own: NELL in small."""
    data, count = planted.clone(), planted.num_nodes
    words, bare = 10 * planted.x.to_dense(), 4 * planted.num_nodes
    data.x = torch.block_diag(words, torch.eye(bare))
    between = torch.stack([torch.arange(count).repeat(4), torch.arange(count, count + bare)])
    data.edge_index = torch.cat([planted.edge_index, between, between.flip(0)], 1)
    for mask in ("train_mask", "val_mask", "test_mask"):
        data[mask] = torch.cat([planted[mask], torch.zeros(bare, dtype=torch.bool)])
    data.y = torch.cat([planted.y, torch.full((bare,), -1)])
    options = SMALL | {"context_optimizer": "adagrad", "context_nodes": "shared", "context_rate": 0.1}
    found = fit_predict("planetoid_inductive", data, seed=1, **options)
    right = (found.argmax(1) == data.y)[data.test_mask].double().mean()
    assert right > 0.8


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"context_nodes": "some"}, r"^`context_nodes` must be one of all, shared\. Got 'some'\.$"),
        ({"context_optimizer": "adam"}, r"^An optimizer must be one of sgd, adagrad\. Got 'adam'\.$"),
    ],
)
def test_unknown_choices_are_named(planted: Data, option: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fit_predict("planetoid_inductive", planted, **option)


def test_losses_of_contexts_by_hand() -> None:
    context = NodeTable(3, 2, torch.Generator().manual_seed(0))
    context.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    triples = Triples(np.array([0, 0]), np.array([0, 1]), np.array([1, -1], np.float32))
    embedding = torch.tensor([[2.0, 1.0], [2.0, 1.0]])  # products with the three contexts: 2, 1, 0
    drawn = np.log1p(np.exp(-2)) + np.log1p(np.exp(1))
    assert loss_against_drawn(embedding, context, triples).item() == pytest.approx(drawn)
    both = 2 * np.log(np.exp(2) + np.exp(1) + 1) - 2 - 1
    assert loss_against_all(embedding, context, triples).item() == pytest.approx(both)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("planetoid_inductive", SMALL | {"context_rate": 0.01}),
        ("planetoid_transductive", {"steps": 100, "label_pairs": 2000, "walk_rounds": 10, "context_rate": 0.05}),
    ],
)
def test_a_softmax_over_all_nodes_learns_planted_classes(planted: Data, name: str, options: dict[str, float]) -> None:
    found = fit_predict(name, planted, seed=1, negatives=0, **options)
    right = (found.argmax(1) == planted.y)[planted.test_mask].double().mean()
    assert right > 0.8
    assert not torch.equal(found, fit_predict(name, planted, seed=1, **options))
