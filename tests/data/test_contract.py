"""Every dataset of the table: the same attributes, the same bits for the same seed."""

import os
from functools import cache
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import DATASETS, check_data, load_dataset
from gpnn.data.kinds import KINDS
from gpnn.graph import Graph

SMALL = {
    "planted": {"num_nodes": 300},
    "people": {"num_nodes": 300},
    "rmat": {"scale": 7},
    "grid": {"rows": 8, "columns": 9},
    "chain": {"num_nodes": 60},
    "diel_like": {"scale": 0.001},
    "eccentricity": {"num_graphs": 30},
    "shortest_path": {"num_graphs": 30},
    "diameter": {"num_graphs": 30},
    "ring_transfer": {"num_graphs": 30},
    "tree_match": {"num_graphs": 30},
    "mesh_eccentricity": {"num_nodes": 100, "hops": 2},
}
FILES = ("cora", "citeseer", "pubmed", "nell", "babi", *KINDS)


@cache
def kept(name: str) -> Data:
    """The dataset, loaded once for all tests here."""
    return load(name)


def load(name: str, **options: object) -> Data:
    if name == "diel" or name.startswith("ogbn-"):
        pytest.skip("its files are in no mirror: see test_diel.py and test_ogb.py")
    if name in FILES and not (Path(os.environ.get("GPNN_DATA", "")) / "planetoid").is_dir():
        pytest.skip("needs the real data: set GPNN_DATA to the folder that holds it")
    return load_dataset(name, **SMALL.get(name, {}), **options)


@pytest.mark.parametrize("name", DATASETS)
def test_has_what_training_needs(name: str) -> None:
    data = kept(name)
    graph = Graph.from_data(data)
    assert graph.num_edges == data.num_edges > 0
    assert data.x.shape[0] == data.num_nodes
    assert data.x.dtype == torch.float32
    assert data.x.layout in (torch.strided, torch.sparse_csr)
    if data.get("task") == "regression":
        assert data.y.is_floating_point()
    else:
        assert data.y.dtype == torch.int64
        assert type(data.num_classes) is int
    for mask in (data.train_mask, data.val_mask, data.test_mask):
        assert mask.dtype == torch.bool
        assert mask.any()
    assert (data.y[data.train_mask] >= 0).all()


@pytest.mark.parametrize("name", DATASETS)
def test_passes_the_check_unchanged(name: str) -> None:
    data = kept(name)
    checked = check_data(data)
    assert sorted(checked.keys()) == sorted(data.keys())


@pytest.mark.parametrize("name", DATASETS)
def test_edges_go_both_ways(name: str) -> None:
    graph = Graph.from_data(kept(name))
    untyped = Graph(graph.src, graph.dst, graph.num_nodes).coalesce()
    assert untyped.to_undirected().num_edges == untyped.num_edges


@pytest.mark.parametrize("name", DATASETS)
def test_same_seed_same_bits(name: str) -> None:
    first, second = kept(name), load(name)
    assert first.keys() == second.keys()
    for key, value in first.to_dict().items():
        if isinstance(value, torch.Tensor) and value.layout == torch.sparse_csr:
            assert torch.equal(value.col_indices(), second[key].col_indices())
            assert torch.equal(value.values(), second[key].values())
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value, second[key])


@pytest.mark.parametrize("name", ["digits", *SMALL])
def test_another_seed_another_draw(name: str) -> None:
    assert not torch.equal(load(name, seed=0).train_mask, load(name, seed=1).train_mask)


def test_global_randomness_is_neither_read_nor_moved() -> None:
    state = torch.random.get_rng_state()
    first = load_dataset("planted", num_nodes=50)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(99)
    assert torch.equal(load_dataset("planted", num_nodes=50).edge_index, first.edge_index)
