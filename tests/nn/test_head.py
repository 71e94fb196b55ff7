"""The head by hand."""

import torch

from gpnn.nn.head import Head
from gpnn.nn.layers import MaskKey


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
