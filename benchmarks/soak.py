"""Does memory stay flat over a thousand epochs?

    python benchmarks/soak.py --out benchmarks/results/soak.md

Trains on `planted` with dropout, a validation every fifth epoch and a checkpoint every fiftieth, in a run folder, as
`gpnn train` does, once with each runner in a process of its own. After every epoch the resident memory and
the number of open files are read. Exits with 1 when, after the first hundred epochs, memory grows by more than 8 MiB
beyond what the history in memory takes, or a file stays open.
"""

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

SHOWN = (1, 10, 50, 100, 200, 400, 600, 800, 1000)
SETTLED, MOST_GROWTH = 100, 8.0  # epochs; MiB
SETTINGS = ["data.name=planted", "data.num_nodes=200", "data.num_features=16", "model.hidden_channels=8", "device=cpu"]
SETTINGS += ["train.patience=0", "train.check_every=5", "train.checkpoint_every=50", "model.cell=gru"]


class Meter:
    """A watcher that notes memory and open files after every epoch."""

    def __init__(self) -> None:
        self.memory: list[float] = []
        self.files: list[int] = []

    def start(self, history: list[dict[str, Any]]) -> None:
        pass

    def epoch(self, record: dict[str, Any]) -> None:
        if len(self.memory) % 50 == 0:
            gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        self.files.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208


def soak(runner: str, epochs: int) -> dict[str, Any]:
    """Memory and open files by epoch, and CPU seconds."""
    import torch

    from gpnn.build import build, create_run, load_config, train_run

    torch.set_num_threads(1)
    meter = Meter()
    with tempfile.TemporaryDirectory() as folder:
        built = build(load_config(overrides=[*SETTINGS, f"train.epochs={epochs}", f"engine={runner}"]))
        began = time.process_time()
        train_run(create_run(built, Path(folder) / "run"), built, [meter], page=False)
    return {"memory": meter.memory, "files": meter.files, "seconds": time.process_time() - began}


def growth(memory: list[float]) -> float:
    """MiB from the median of the hundred epochs after settling to that of the last hundred."""
    from statistics import median

    return median(memory[-100:]) - median(memory[SETTLED : SETTLED + 100])


def page(results: dict[str, dict[str, Any]]) -> str:
    import torch

    shown = [epoch for epoch in SHOWN if epoch <= len(next(iter(results.values()))["memory"])]
    lines = [f"| runner | {' | '.join(f'epoch {each}' for each in shown)} | growth | open files | CPU s |"]
    lines.append("|---" * (len(shown) + 4) + "|")
    for runner, result in results.items():
        memory, files = result["memory"], result["files"]
        cells = " | ".join(f"{memory[epoch - 1]:.1f}" for epoch in shown)
        opened = f"{files[0]} to {files[-1]}"
        lines.append(f"| {runner} | {cells} | {growth(memory):+.2f} | {opened} | {result['seconds']:.0f} |")
    memory_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {memory_:.0f} GiB; torch {torch.__version__}"
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].partition(" Exits")[0].strip()
    head = f"# A thousand epochs in flat memory\n\n    python benchmarks/soak.py --out FILE\n\n{about}\n\n"
    tail = "Resident memory in MiB; growth is from the median of epochs 101 to 200 to that of the last hundred."
    return f"{head}Machine: {machine}.\n\n" + "\n".join(lines) + f"\n\n{tail}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--runner", help="run in this process and print JSON")
    chosen = parser.parse_args()
    if chosen.runner:
        print(json.dumps(soak(chosen.runner, chosen.epochs)))
        return
    results = {}
    for runner in ("fused", "streamed"):
        command = [sys.executable, __file__, "--runner", runner, "--epochs", str(chosen.epochs)]
        results[runner] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    text = page(results)
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text)
    flat = all(growth(each["memory"]) <= MOST_GROWTH for each in results.values())
    sys.exit(not (flat and all(each["files"][-1] <= each["files"][0] + 1 for each in results.values())))


if __name__ == "__main__":
    main()
