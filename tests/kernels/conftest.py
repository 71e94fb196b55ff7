"""What tests of several kernels share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)
