"""A model for the graph `planted`."""

import pytest

from gpnn.nn import GPNN


@pytest.fixture
def model() -> GPNN:
    return GPNN(3, 8, 3, dropout=0.3, drop_node=0.2)
