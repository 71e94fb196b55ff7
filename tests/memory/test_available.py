"""What a process may still take: what is free, and what control groups and its own limits leave of it."""

import json
import mmap
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpnn.memory import available
from gpnn.memory.available import available_bytes, cgroup_bytes_left, limit_device, resident_bytes

ON_LINUX = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
NO_LIMIT = 9223372036854771712  # what cgroup v1 writes


def group(root: Path, path: str, **files: object) -> None:
    """A control group's files, by their names after "memory."."""
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"memory.{name}").write_text(f"{content}\n")


def member(root: Path, *lines: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in lines))


def test_a_group_of_version_2_leaves_its_limit_less_what_is_taken(tmp_path):
    member(tmp_path, "0::/user/job")
    group(tmp_path, "user/job", max=8000, current=3000, stat="anon 1500\nactive_file 700\ninactive_file 300")
    assert list(cgroup_bytes_left(tmp_path)) == [8000 - 2000]


def test_groups_around_it_count_too(tmp_path):
    member(tmp_path, "0::/user/job")
    group(tmp_path, "user/job", max=8000, current=3000)
    group(tmp_path, "user", max=4000, current=3500)
    group(tmp_path, "", max="max", current=9000)
    assert list(cgroup_bytes_left(tmp_path)) == [5000, 500]


def test_a_group_of_version_1(tmp_path):
    member(tmp_path, "9:name=systemd:/", "4:cpu,memory:/docker/a", "0::/")
    stat = "active_file 5\ntotal_active_file 100\ntotal_inactive_file 200"
    group(tmp_path, "memory/docker/a", limit_in_bytes=9000, usage_in_bytes=4300, stat=stat)
    group(tmp_path, "memory/docker", limit_in_bytes=NO_LIMIT, usage_in_bytes=4300)
    group(tmp_path, "memory", limit_in_bytes=NO_LIMIT, usage_in_bytes=4300)
    assert list(cgroup_bytes_left(tmp_path)) == [9000 - 4000]


@pytest.mark.parametrize(("line", "folder"), [("0::/outside/name", ""), ("4:memory:/outside/name", "memory")])
def test_in_a_container_the_mount_is_the_group(tmp_path, line, folder):
    member(tmp_path, line)
    files = {"max": 700, "current": 100} if not folder else {"limit_in_bytes": 700, "usage_in_bytes": 100}
    group(tmp_path, folder, **files)
    assert list(cgroup_bytes_left(tmp_path)) == [600]


def test_a_group_that_is_full_leaves_nothing(tmp_path, monkeypatch):
    member(tmp_path, "0::/")
    group(tmp_path, "", max=1000, current=2000)
    assert list(cgroup_bytes_left(tmp_path)) == [-1000]
    left = list(cgroup_bytes_left(tmp_path))
    monkeypatch.setattr(available, "cgroup_bytes_left", lambda: iter(left))
    monkeypatch.setattr(available, "resident_bytes", lambda: 1e9)
    assert available_bytes() == 1e9


def test_without_groups_there_is_no_limit(tmp_path):
    assert list(cgroup_bytes_left(tmp_path)) == []
    member(tmp_path, "0::/")
    assert list(cgroup_bytes_left(tmp_path)) == []


@ON_LINUX
def test_memory_of_this_process():
    """No difference of two readings: the system may reclaim other pages of the process in between."""
    with mmap.mmap(-1, 1 << 26) as held:
        held.write(b"1" * len(held))
        assert resident_bytes() >= len(held)
    assert resident_bytes() <= 1.1 * 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert available_bytes() > 0


@ON_LINUX
def test_processes_divide_what_is_free(monkeypatch):
    monkeypatch.setattr(available, "resident_bytes", lambda: 1e9)
    monkeypatch.setattr(available, "_free", lambda: 8e9)
    monkeypatch.setattr(available, "cgroup_bytes_left", lambda: iter([]))
    assert available_bytes() == 9e9
    assert available_bytes(sharing=4) == 3e9


LIMITED = """
import json, resource, torch
from gpnn.memory import available
from gpnn.memory.available import available_bytes
available._free, available.cgroup_bytes_left = lambda: 1e12, lambda: iter([])  # not what the machine has left
available.resident_bytes = lambda: 1e9  # pages may come and go between two readings
for kind, column in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
    taken = int(open("/proc/self/statm").read().split()[column]) * 4096
    resource.setrlimit(kind, (taken + 300_000_000, resource.RLIM_INFINITY))
    print(json.dumps([available_bytes(sharing=1000) - 1e9, available_bytes() - 1e9]))
    resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@ON_LINUX
@pytest.mark.thorough  # measured memory
def test_the_limits_of_a_process_are_seen_and_are_its_own():
    """On its addresses, and on its data."""
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 2, done.stderr
    assert all(2.5e8 < left <= 3.0e8 for among_and_alone in found for left in among_and_alone)


CHOSEN = """
import json, resource, torch
from torch_geometric.data import Data
import gpnn
from gpnn.train import Recipe, fit
from gpnn.memory.engine import MARGIN, choose_engine
from gpnn.memory.available import BACKED
torch.set_num_threads(1)
random, size = torch.Generator().manual_seed(0), 60_000
src = torch.randint(size, (4 * size,), generator=random)
dst = (src + torch.randint(1, 50, src.shape, generator=random)) % size
mask = torch.rand(size, generator=random) < 0.1
data = Data(x=torch.randn(size, 8), y=torch.arange(size) % 3, edge_index=torch.stack([src, dst]), train_mask=mask)
data.num_classes = 3
plan = gpnn.lower(data, gpnn.schedule.partitioned(data, torch.arange(size) * 8 // size, rounds=4))
model, recipe = gpnn.nn.GPNN(8, 128, 3, num_rounds=4), Recipe(epochs=1)
choices = [choose_engine(model, data.x, plan, recipe, engine=name) for name in ("fused", "streamed")]
between = sum(choice.estimate.peak - choice.estimate.resident for choice in choices) / 2
taken = int(open("/proc/self/statm").read().split()[0]) * 4096
left = ((between + choices[0].estimate.resident) / MARGIN - choices[0].estimate.resident) / BACKED
resource.setrlimit(resource.RLIMIT_AS, (int(taken + left), resource.RLIM_INFINITY))
choice = choose_engine(model, data.x, plan, recipe)
model.runner = choice.runner
print(json.dumps([choice.name, fit(model, data, plan, recipe=recipe).stopped]))
"""


@pytest.mark.thorough
@ON_LINUX
def test_auto_keeps_to_a_limit_on_the_address_space():
    """It chose the fused engine by what the machine had free, and the training died."""
    done = subprocess.run([sys.executable, "-c", CHOSEN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) in (["streamed_phases", "epochs"], ["streamed", "epochs"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_device_is_held_to_a_limit(device: str) -> None:
    limit_device(torch.device(device), 2**30)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(2**31, dtype=torch.uint8, device=device)
    finally:
        limit_device(torch.device(device), torch.cuda.get_device_properties(0).total_memory)
