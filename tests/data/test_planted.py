"""The planted partition."""

import pytest
import torch

from gpnn.data import load_dataset
from gpnn.graph import Graph


def test_defaults() -> None:
    data = load_dataset("planted")
    graph = Graph.from_data(data)
    assert graph.num_nodes == 20_000
    assert data.y.bincount().tolist() == [2000] * 10
    assert graph.num_edges / graph.num_nodes == pytest.approx(10, rel=0.02)
    assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [200, 2000, 17_800]
    assert data.x.layout == torch.sparse_csr


@pytest.mark.parametrize("mixing", [0.0, 0.3, 1.0])
def test_mixing_is_the_share_of_edges_that_forget_the_class(mixing: float) -> None:
    data = load_dataset("planted", num_nodes=4000, num_classes=4, mixing=mixing)
    src, dst = data.edge_index
    same = (data.y[src] == data.y[dst]).float().mean()
    assert float(same) == pytest.approx(1 - mixing * 3 / 4, abs=0.03)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_noise_is_the_share_of_words_that_forget_the_class(noise: float) -> None:
    data = load_dataset("planted", num_nodes=2000, num_classes=5, num_features=5000, feature_noise=noise)
    owner = torch.repeat_interleave(data.y, data.x.crow_indices().diff())
    own = (data.x.col_indices() // 1000 == owner).float().mean()
    assert float(own) == pytest.approx(1 - noise * 4 / 5, abs=0.03)


def test_label_rate() -> None:
    data = load_dataset("planted", num_nodes=1000, num_classes=2, label_rate=0.25)
    assert data.y[data.train_mask].bincount().tolist() == [125, 125]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_nodes": 0}, r"`num_nodes` must be at least 1\. Got 0\."),
        ({"degree": -1.0}, r"`degree` must be at least 0\. Got -1\.0\."),
        ({"mixing": 1.5}, r"`mixing` must be from 0 to 1\. Got 1\.5\."),
        ({"feature_noise": -0.1}, r"`noise` must be from 0 to 1\. Got -0\.1\."),
        ({"num_features": 3}, r"`num_features` must be at least the 10 classes\. Got 3\."),
        ({"label_rate": 0.0}, r"must be shares that sum to at most 1\. Got 0\.0"),
    ],
)
def test_refuses(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset("planted", **options)
