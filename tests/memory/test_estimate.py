"""The estimate is near what a training takes; the rest of the process is read, not guessed."""

import json
import subprocess
import sys
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import gpnn
from gpnn.engine import Streamed
from gpnn.memory import estimate
from gpnn.memory.engine import DoesNotFit
from gpnn.memory.estimate import estimate_columns, estimate_memory
from gpnn.memory.reach import count_reach
from gpnn.nn import GPNN
from gpnn.recipes import RECIPES
from gpnn.train import Recipe
from tests.memory.test_reach import skewed

TRAIN = """
import json, torch
from dataclasses import replace
from pathlib import Path
from torch_geometric.data import Data
import gpnn
from gpnn.train import Recipe, fit
from gpnn.pipeline import resolve_options
from gpnn.train.recipe import DEFAULT_RECIPE
from gpnn.memory.estimate import estimate_memory
torch.set_num_threads(1)
random, size = torch.Generator().manual_seed(0), SIZE
src = torch.randint(size, (4 * size,), generator=random)
dst = (src + torch.randint(1, 50, src.shape, generator=random)) % size
mask = torch.rand(size, generator=random) < 0.1
data = Data(x=torch.randn(size, 8), y=torch.arange(size) % 3, edge_index=torch.stack([src, dst]), train_mask=mask)
data.num_classes = 3
schedules = {
    "partitioned": lambda: gpnn.schedule.partitioned(data, torch.arange(size) * 8 // size, rounds=4),
    "held_cut": lambda: gpnn.schedule.held_cut(data, torch.arange(size) % 8, rounds=2, intra=4),
}
plan = gpnn.lower(data, schedules[SCHEDULE]())
options = resolve_options({"cell": CELL}, has_features=True)
options |= {"num_rounds": plan.num_rounds, "runner": RUNNER}
model = gpnn.nn.GPNN(8, 128, 3, input_dropout=0.5, dropout=0.2, drop_node=0.5, **options)
recipe = replace(DEFAULT_RECIPE, epochs=1) if CELL == "linear" else Recipe(epochs=1)
estimate = estimate_memory(model, data.x, plan, recipe, RUNNER)
Path("/proc/self/clear_refs").write_text("5")
fit(model, data, plan, recipe=recipe)
status = Path("/proc/self/status").read_text().splitlines()
peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024
print(json.dumps([estimate.peak, estimate.resident, peak]))
"""


ON_LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")


def measure(cell: str, runner: str, size: int, schedule: str = "partitioned") -> tuple[float, float, float]:
    """Bytes estimated, resident before and at the peak of a training in a process of its own."""
    words = {"RUNNER": repr(runner), "CELL": repr(cell), "SIZE": str(size), "SCHEDULE": repr(schedule)}
    code = TRAIN
    for name, value in words.items():
        code = code.replace(name, value)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return tuple(json.loads(done.stdout))


@ON_LINUX
@pytest.mark.parametrize(
    "runner", [pytest.param("fused", marks=pytest.mark.thorough), pytest.param("streamed", marks=pytest.mark.slow)]
)
def test_it_is_near_the_measured_peak(runner):
    estimate, resident, peak = measure("gru", runner, 40_000)
    assert 0.65 * peak < estimate < 1.5 * peak
    assert peak - resident < 3 * (estimate - resident)


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_held_messages_count(runner):
    estimate, resident, peak = measure("gru", runner, 40_000, "held_cut")
    assert 0.65 * peak < estimate < 1.5 * peak
    assert peak - resident < 3 * (estimate - resident)


@pytest.mark.thorough
@ON_LINUX
def test_streaming_saves_memory_with_the_default_cell():
    """Most of what the default recipe keeps is the encoder's and the head's: streaming must not leave it there."""
    estimates, residents, peaks = zip(*(measure("linear", runner, 160_000) for runner in ("fused", "streamed")))
    fused, streamed = (peak - resident for peak, resident in zip(peaks, residents))
    assert streamed < 0.6 * fused
    assert all(0.65 * peak < estimate < 1.5 * peak for estimate, peak in zip(estimates, peaks))


@pytest.mark.thorough
def test_mini_batches_need_no_states_of_all_nodes(planted):
    """Sparse features of many columns are propagated after their map, and few nodes are kept for the backward pass."""
    wide, num_nodes = planted.clone(), planted.num_nodes
    wide.x = torch.eye(num_nodes, 2_000_000).to_sparse_csr()
    made = RECIPES["sampled"].pipeline.assemble(wide, RECIPES["sampled"].train)
    parts = (made.model, wide.x, made.plan)
    batches = estimate_memory(*parts, RECIPES["sampled"].train)
    whole = estimate_memory(*parts, replace(RECIPES["sampled"].train, batch=0))
    dense = 4 * num_nodes * wide.x.shape[1]
    assert batches.outside < dense / 100
    assert whole.kept > dense


def test_a_model_of_columns_that_does_not_fit_is_refused():
    data = gpnn.load_dataset("planted", num_nodes=60, num_classes=2, num_features=4)
    pipeline = RECIPES["columns"].pipeline
    model = pipeline.assemble(data, RECIPES["columns"].train).model
    larger = copy(data)
    larger.num_nodes = 10**9
    assert estimate_columns(model, larger).peak > 1e3 * estimate_columns(model, data).features > 0
    with pytest.raises(DoesNotFit, match=r"The columns of 60 nodes must fit in 0\.0 GB of memory\. Got about .* GB"):
        replace(pipeline, memory=1e6).assemble(data, RECIPES["columns"].train)


def test_a_loss_of_few_nodes_takes_what_they_reach(monkeypatch):
    monkeypatch.setattr("gpnn.engine.recompute.PART_DEVICES", ("cpu",))
    monkeypatch.setattr("gpnn.engine.lower_schedule.CHUNK_ROWS", 70)
    counted = []
    monkeypatch.setattr(estimate, "count_reach", lambda plan, rows: counted.append(rows) or count_reach(plan, rows))
    graph = skewed(directed=False)
    plan, model = gpnn.lower(gpnn.schedule.synchronous(graph, 3)), GPNN(8, 8, 2, concat="none")
    x, few, isolated = torch.ones(graph.num_nodes, 8), torch.tensor([0]), torch.tensor([graph.num_nodes - 1])

    def work(train=None, runner="streamed", **changes):
        found = estimate_memory(model, x, plan, Recipe(**changes), runner, rows=1, train=train)
        return found.kept + found.work

    assert work(isolated) < min(work(few), work())
    assert work(few, Streamed(dtype=torch.bfloat16)) == work(few)
    assert len(counted) == 2  # the same for all engines
    assert work(few, consistency=1.0, passes=2) == work(consistency=1.0, passes=2)  # whose loss is of all nodes


def test_outputs_of_all_nodes_count():
    graph = skewed(directed=False)
    plan, x = gpnn.lower(gpnn.schedule.synchronous(graph, 2)), torch.ones(graph.num_nodes, 8)
    few, many = (
        estimate_memory(GPNN(8, 8, classes, concat="none"), x, plan, Recipe(), "streamed", rows=1)
        for classes in (2, 500)
    )
    assert many.scoring - few.scoring >= graph.num_nodes * 498 * 4
    few, many = (replace(each, resident=0.0) for each in (few, many))  # which others may free meanwhile
    assert many.peak - few.peak >= graph.num_nodes * 498 * 4


def test_freed_memory_that_is_kept_counts_where_it_is_much() -> None:
    large, small = (estimate.Estimate(1e8, 0, 0, 0, kept, 0, 0) for kept in (6e9, 5e8))
    assert large.keeping_freed().peak == pytest.approx(large.peak + 0.65 * (large.peak - 1e8))
    assert "freed memory 4.0" in str(large.keeping_freed())
    assert small.keeping_freed() == small
