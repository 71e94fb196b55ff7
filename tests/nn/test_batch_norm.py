"""Batch normalisation: the pass at hand, the running average, and where that starts."""

import torch

from gpnn.nn.batch_norm import BatchNorm


def test_a_pass_is_standardised_and_the_first_one_is_the_running_average():
    norm, x = BatchNorm(3), torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 1e-2 + 0.5
    seen = norm(x)
    torch.testing.assert_close(seen.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(norm.running_mean, x.mean(0))
    torch.testing.assert_close(norm.running_var, x.var(0))


def test_the_average_is_plain_over_ten_passes_and_then_forgets():
    norm = BatchNorm(1)
    for value in range(10):
        norm(torch.tensor([[value - 1.0], [value + 1.0]]))
    torch.testing.assert_close(norm.running_mean, torch.tensor([4.5]))
    norm(torch.tensor([[99.0], [101.0]]))
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.9 * 4.5 + 0.1 * 100]))


def test_a_loaded_module_goes_on_where_the_saved_one_was():
    first, second, x = BatchNorm(1), BatchNorm(1), torch.tensor([[1.0], [2.0]])
    first(x)
    second.load_state_dict(first.state_dict())
    first(3 * x), second(3 * x)
    torch.testing.assert_close(second.state_dict(), first.state_dict(), rtol=0, atol=0)
