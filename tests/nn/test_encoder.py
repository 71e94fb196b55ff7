"""Embeddings start from features where a node has them."""

import pytest
import torch

from gpnn.nn.encoder import Head, NodeEmbedding
from gpnn.nn.layers import MaskKey


def embed(channels: int, features: torch.Tensor | None, seed: int = 0, scale: str = "unit") -> torch.Tensor:
    return NodeEmbedding(3, channels, torch.Generator().manual_seed(seed), features, scale=scale).weight.detach()


def test_rows_start_from_features_scaled_to_norm_one():
    start = embed(3, torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]]))
    torch.testing.assert_close(start[0], torch.tensor([0.6, 0.8, 0.0]))
    torch.testing.assert_close(start[2], torch.tensor([0.0, 1.0, 0.0]))
    assert start[1].abs().max() <= 3**-0.5  # a node without features starts at random
    assert start[1].abs().min() > 0


def test_unscaled_rows_start_at_the_observations_and_others_in_one():
    features = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    start = embed(64, features, scale="none")
    torch.testing.assert_close(start[[0, 2], :2], features[[0, 2]])
    assert 0.5 < start[1].abs().max() <= 1  # far outside of ±1/8, where the scaled start lies
    torch.testing.assert_close(embed(64, None, scale="none"), 8 * embed(64, None))


@pytest.mark.parametrize("sparse", [False, True])
def test_wide_features_are_projected_and_keep_their_angles(sparse):
    random = torch.Generator().manual_seed(0)
    features = torch.randn(3, 20_000, generator=random)
    features[1] = 0
    features[2] = features[0] + 0.5 * torch.randn(20_000, generator=random)
    start = embed(512, features.to_sparse_csr() if sparse else features)
    torch.testing.assert_close(start[0].norm(), torch.tensor(1.0))
    cosine = torch.nn.functional.cosine_similarity(features[0], features[2], dim=0)
    assert abs((start[0] @ start[2]) - cosine) < 0.05


def test_the_projection_is_fixed_by_the_seed():
    features = torch.eye(3, 9)
    assert embed(4, features).equal(embed(4, features))
    assert not embed(4, features).equal(embed(4, features, seed=1))
    assert embed(4, None).abs().max() <= 0.5


def test_refuses_an_unknown_scale():
    with pytest.raises(ValueError, match=r"`embedding_scale` must be one of unit, none\. Got 'half'"):
        embed(2, None, scale="half")


def test_refuses_features_of_another_graph():
    with pytest.raises(ValueError, match=r"a row for each of the 3 nodes\. Got 4"):
        embed(2, torch.ones(4, 2))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(4, 3, generator=random), torch.randn(4, 2, generator=random)


def head(**options: object) -> Head:
    made = Head(3, 2, torch.Generator().manual_seed(1), **options)
    for bias in made.biases:
        bias.data = torch.linspace(-1, 1, len(bias))
    return made


def test_tanh_layers_and_a_linear_one():
    state, _ = inputs()
    deep = head(hidden=(5, 4))
    first = torch.tanh(state @ deep.weights[0] + deep.biases[0])
    second = torch.tanh(first @ deep.weights[1] + deep.biases[1])
    torch.testing.assert_close(deep(state), second @ deep.weights[2] + deep.biases[2])
    flat = head()
    torch.testing.assert_close(flat(state), state @ flat.weights[0] + flat.biases[0])


def test_what_stands_beside_the_state_is_concatenated_to_it():
    state, beside = inputs()
    wide = head(hidden=(5,), beside=2)
    joined = torch.cat([state, beside], 1) @ torch.cat([wide.weights[0], wide.beside.weight])
    expected = torch.tanh(joined + wide.biases[0]) @ wide.weights[1] + wide.biases[1]
    torch.testing.assert_close(wide(state, beside), expected)


def test_dropout_takes_state_and_input_apart():
    state, beside = inputs()
    wide = head(beside=2)
    dropped = wide(state, beside, 0.5, MaskKey(0), 3)
    assert not dropped.equal(wide(state, beside))
    assert dropped.equal(wide(state, beside, 0.5, MaskKey(0), 3))
    assert not dropped.equal(wide(state, beside, 0.5, MaskKey(0), 4))
