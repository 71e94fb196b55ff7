"""Does memory stay flat over a thousand epochs?

    python benchmarks/soak.py --out benchmarks/results/soak.md

Trains on `planted` with dropout, a validation every fifth epoch and a checkpoint every fiftieth, in a run folder, as
`gpnn train` does, once with each runner in a process of its own. After every epoch the resident memory, the bytes that
the C library has handed out, the number of Python's small objects and the number of open files are read. A run keeps
one record an epoch in memory, its history, which every checkpoint carries: that growth is meant, and is counted apart.
Exits with 1 when, after the first hundred epochs, resident memory grows by more than 8 MiB, small objects by more than
the history's and two an epoch beside, what the C library handed out by more than 256 bytes an epoch, or a file stays
open.
"""

import argparse
import ctypes
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
SETTLED, MOST_GROWTH, MOST_HANDED_OUT, MOST_OBJECTS = 100, 8.0, 256.0, 2.0  # epochs; MiB; bytes, objects an epoch
SETTINGS = ["data.name=planted", "data.num_nodes=200", "data.num_features=16", "model.hidden_channels=8", "device=cpu"]
SETTINGS += ["train.patience=0", "train.check_every=5", "train.checkpoint_every=50", "model.cell=gru"]


class Handed(ctypes.Structure):
    """What `mallinfo2` of the C library answers."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("fsmblks", "uordblks", "fordblks", "keepcost")]


class Meter:
    """A watcher that notes memory and open files after every epoch, in arrays that were there before."""

    def __init__(self, epochs: int) -> None:
        import numpy as np

        self.done = 0
        self.memory, self.files, self.handed, self.objects, self.records = np.zeros((5, epochs))
        self.ask = ctypes.CDLL(None).mallinfo2
        self.ask.restype = Handed

    def start(self, history: list[dict[str, Any]]) -> None:
        pass

    def epoch(self, record: dict[str, Any]) -> None:
        if self.done % 50 == 0:
            gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        handed = self.ask()
        self.memory[self.done] = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        self.files[self.done] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        self.handed[self.done] = handed.uordblks + handed.hblkhd
        self.objects[self.done] = sys.getallocatedblocks()
        self.records[self.done] = 2 + len(record)  # the dictionary, its table of keys, and a number each
        self.done += 1


def soak(runner: str, epochs: int) -> dict[str, Any]:
    """Memory and open files by epoch, and CPU seconds."""
    import torch

    from gpnn.build import build, create_run, load_config, train_run

    torch.set_num_threads(1)
    meter = Meter(epochs)
    with tempfile.TemporaryDirectory() as folder:
        built = build(load_config(overrides=[*SETTINGS, f"train.epochs={epochs}", f"engine={runner}"]))
        began = time.process_time()
        train_run(create_run(built, Path(folder) / "run"), built, [meter], page=False)
    noted = ("memory", "files", "handed", "objects", "records")
    return {name: getattr(meter, name).tolist() for name in noted} | {"seconds": time.process_time() - began}


def growth(values: list[float]) -> float:
    """From the median of the hundred epochs after settling to that of the last hundred."""
    from statistics import median

    return median(values[-100:]) - median(values[SETTLED : SETTLED + 100])


def rates(result: dict[str, Any]) -> tuple[float, float, float]:
    """Bytes handed out, objects, and objects of the history, an epoch."""
    epochs = len(result["memory"]) - SETTLED - 100
    records = sum(result["records"][SETTLED:]) / (epochs + 100)
    return growth(result["handed"]) / epochs, growth(result["objects"]) / epochs, records


def flat(result: dict[str, Any]) -> bool:
    handed, objects, records = rates(result)
    bounded = growth(result["memory"]) <= MOST_GROWTH and handed <= MOST_HANDED_OUT
    return bounded and objects <= records + MOST_OBJECTS and result["files"][-1] <= result["files"][0] + 1


def page(results: dict[str, dict[str, Any]]) -> str:
    import torch

    shown = [epoch for epoch in SHOWN if epoch <= len(next(iter(results.values()))["memory"])]
    lines = [f"| runner | {' | '.join(f'epoch {each}' for each in shown)} | growth | open files | CPU s |"]
    lines.append("|---" * (len(shown) + 4) + "|")
    for runner, result in results.items():
        memory, files = result["memory"], result["files"]
        cells = " | ".join(f"{memory[epoch - 1]:.1f}" for epoch in shown)
        opened = f"{files[0]:.0f} to {files[-1]:.0f}"
        lines.append(f"| {runner} | {cells} | {growth(memory):+.2f} | {opened} | {result['seconds']:.0f} |")
    memory_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {memory_:.0f} GiB; torch {torch.__version__}"
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].partition("\nExits")[0].strip()
    head = f"# A thousand epochs in flat memory\n\n    python benchmarks/soak.py --out FILE\n\n{about}\n\n"
    tail = "Resident memory in MiB; growth is from the median of epochs 101 to 200 to that of the last hundred."
    return f"{head}Machine: {machine}.\n\n" + "\n".join(lines) + f"\n\n{tail}\n\n{inside(results)}"


def inside(results: dict[str, dict[str, Any]]) -> str:
    """The table of what is in use, an epoch."""
    lines = [
        "| runner | C library, bytes an epoch | small objects an epoch | of them the history's |",
        "|---" * 4 + "|",
    ]
    for runner, result in results.items():
        handed, objects, records = rates(result)
        lines.append(f"| {runner} | {handed:+.0f} | {objects:+.2f} | {records:.2f} |")
    return "\n".join(lines) + "\n"


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
    sys.exit(not all(map(flat, results.values())))


if __name__ == "__main__":
    main()
