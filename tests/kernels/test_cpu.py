"""The CPU kernels' threads."""

import subprocess
import sys

import pytest

COUNT_THREADS = """
import torch
torch.set_num_threads(1)
from gpnn.kernels import Operator, aggregate
operator = Operator.from_edges(torch.arange(9000), torch.arange(9000), None, (9000, 9000))
aggregate(operator, torch.ones(9000, 32))
print(torch.get_num_threads())
"""


@pytest.mark.thorough
def test_kernels_leave_torch_the_threads_that_it_had():
    """Numba's pool sets OpenMP's count when it starts; a fresh process shows it."""
    out = subprocess.run([sys.executable, "-c", COUNT_THREADS], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "1"
