"""Where Triton's kernels can run here: on a GPU, or on the CPU when TRITON_INTERPRET is set."""

import os
from importlib.util import find_spec

import pytest
import torch

INTERPRETED = bool(os.environ.get("TRITON_INTERPRET")) and find_spec("triton") is not None
DEVICE = "cpu" if INTERPRETED else "cuda"
needs_triton = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device, or triton with TRITON_INTERPRET=1"
)
