import pytest

from gpnn.graph import Graph


@pytest.fixture
def typed() -> Graph:
    """0 → 1 twice, 1 → 2, a loop at 2, and node 3 alone."""
    return Graph([0, 0, 1, 2], [1, 1, 2, 2], 4, edge_type=[0, 1, 1, 0], edge_weight=[0.5, 1.0, 2.0, 4.0])
