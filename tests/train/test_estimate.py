"""The estimate is near what a training takes; the rest of the process is read, not guessed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpnn.train.estimate import available_bytes, resident_bytes

TRAIN = """
import json, torch
from pathlib import Path
from torch_geometric.data import Data
import gpnn
from gpnn.train import Recipe, fit
from gpnn.train.estimate import estimate_memory
torch.set_num_threads(1)
random, size = torch.Generator().manual_seed(0), 40_000
src = torch.randint(size, (4 * size,), generator=random)
dst = (src + torch.randint(1, 50, src.shape, generator=random)) % size
mask = torch.rand(size, generator=random) < 0.1
data = Data(x=torch.randn(size, 8), y=torch.arange(size) % 3, edge_index=torch.stack([src, dst]), train_mask=mask)
data.num_classes = 3
plan = gpnn.lower(data, gpnn.schedule.partitioned(data, torch.arange(size) * 8 // size, rounds=4))
model = gpnn.nn.GPNN(8, 128, 3, num_rounds=4, runner=RUNNER)
estimate = estimate_memory(model, data.x, plan, Recipe(), RUNNER)
Path("/proc/self/clear_refs").write_text("5")
fit(model, data, plan, recipe=Recipe(epochs=1))
status = Path("/proc/self/status").read_text().splitlines()
peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024
print(json.dumps([estimate.peak, estimate.resident, peak]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize("runner", ["fused", pytest.param("streamed", marks=pytest.mark.slow)])
def test_it_is_near_the_measured_peak(runner):
    code = TRAIN.replace("RUNNER", repr(runner))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    estimate, resident, peak = json.loads(done.stdout)
    assert 0.65 * peak < estimate < 1.5 * peak
    assert peak - resident < 3 * (estimate - resident)


def test_memory_of_this_process():
    before = resident_bytes()
    held = torch.ones(1 << 24)
    assert resident_bytes() - before > 0.9 * held.numel() * 4
    assert available_bytes() > resident_bytes()
