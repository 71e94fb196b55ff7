"""Does memory stay flat over a thousand epochs, and over three thousand?

    python benchmarks/soak.py --out benchmarks/results/soak.md

Trains on `planted` with dropout, a validation every fifth epoch and a checkpoint every fiftieth, in a run folder, as
`gpnn train` does: with each runner, without checkpoints, and with a history that forgets, each in a process of its own.
After every epoch the resident memory, the bytes that the C library has handed out, the number of Python's small objects
and the number of open files are read. A run keeps one record per epoch in memory, its history, which every checkpoint
carries: that growth is meant, and is counted apart. At epoch 600 and at the end the C library is asked to give free
memory back (`malloc_trim`), which tells what is in use from what it keeps. Growth counts from epoch 500: runs have a
step of up to 0.9 MiB once before, at one epoch or another, which earlier versions of this page, that counted from epoch
100 or 200, divided by the epochs.
Exits with 1 when, after the first five hundred epochs, resident memory grows by more than 8 MiB (with a history that
forgets by more than 512 bytes per epoch), small objects by more than the history's and two per epoch beside, what the C
library handed out by more than 256 bytes per epoch, or a file stays open.

    python benchmarks/soak.py --races 1000 --processes 4 --out benchmarks/results/soak_races.md

races the recipes on a small graph that many times, shared by processes that run beside each other, each race into a run
folder of its own, and notes resident memory, small objects and open files of each process. Exits with 1 when, in the
second half of its races, resident memory of one grows by more than 16 KiB or Python's small objects by more than 100
per race, or a file stays open; in the first half a process has a step of some MiB once. `--limit S` begins no race
after so many seconds.
"""

import argparse
import ctypes
import gc
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

SHOWN = (1, 100, 200, 500, 1000, 2000, 3000)
SETTLED, MOST_GROWTH, MOST_HANDED_OUT, MOST_OBJECTS = 500, 8.0, 256.0, 2.0  # epochs; MiB; bytes, objects per epoch
MOST_FORGETFUL = 512.0  # bytes per epoch
FORGETFUL = "fused, history not kept"
CASES: dict[str, tuple[int, list[str]]] = {  # epochs and settings
    "fused": (3000, ["engine=fused"]),
    "streamed": (1000, ["engine=streamed"]),
    "fused, no checkpoints": (3000, ["engine=fused", "train.checkpoint_every=0"]),
    FORGETFUL: (3000, ["engine=fused", "train.checkpoint_every=0"]),
}
SETTINGS = ["data.name=planted", "data.num_nodes=200", "data.num_features=16", "model.hidden_channels=8", "device=cpu"]
SETTINGS += ["train.patience=0", "train.check_every=5", "train.checkpoint_every=50", "model.cell=gru"]


RACED = ["data.name=planted", "data.num_nodes=60", "data.num_features=8", "data.num_classes=3", "data.label_rate=0.3"]
RACED += ["recipe=auto", "train.epochs=4", "train.patience=0", "device=cpu"]
FIXED, MOST_PER_RACE, MOST_KEPT = ("train.epochs", "train.patience"), 16.0, 100.0  # KiB, objects


class Handed(ctypes.Structure):
    """What `mallinfo2` of the C library answers."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("fsmblks", "uordblks", "fordblks", "keepcost")]


class Meter:
    """A callback that notes memory and open files after every epoch, in arrays that were there before."""

    def __init__(self, epochs: int) -> None:
        import numpy as np

        self.done, self.epochs = 0, epochs
        self.trimmed: list[float] = []
        self.forgets = False
        self.memory, self.files, self.handed, self.objects, self.records, self.sizes = np.zeros((6, epochs))
        self.library = ctypes.CDLL(None)
        self.ask = self.library.mallinfo2
        self.ask.restype = Handed

    def start(self, history: list[dict[str, Any]]) -> None:
        self.history = history

    def epoch(self, record: dict[str, Any]) -> None:
        if self.forgets:
            del self.history[:-1]
        if self.done % 50 == 0:
            gc.collect()
        handed = self.ask()
        self.memory[self.done] = resident()
        self.files[self.done] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        self.handed[self.done] = handed.uordblks + handed.hblkhd
        self.objects[self.done] = sys.getallocatedblocks()
        self.records[self.done] = 2 + len(record)  # the dictionary, its table of keys, and a number each
        self.sizes[self.done] = sys.getsizeof(record) + sum(map(sys.getsizeof, record.values()))
        self.done += 1
        if self.done in (SETTLED + 100, self.epochs):
            gc.collect()
            self.library.malloc_trim(0)
            self.trimmed.append(resident())


def resident() -> float:
    """Resident memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def soak(case: str) -> dict[str, Any]:
    """Memory and open files by epoch, and CPU seconds."""
    import torch

    from gpnn.build import build, create_run, load_config, train_run

    torch.set_num_threads(1)
    epochs, settings = CASES[case]
    meter = Meter(epochs)
    meter.forgets = case == FORGETFUL
    with tempfile.TemporaryDirectory() as folder:
        built = build(load_config(overrides=[*SETTINGS, f"train.epochs={epochs}", *settings]))
        began = time.process_time()
        train_run(create_run(built, Path(folder) / "run"), built, [meter], report=False)
    noted = ("memory", "files", "handed", "objects", "records", "sizes")
    metrics = {name: getattr(meter, name).tolist() for name in noted} | {"trimmed": meter.trimmed}
    return metrics | {"seconds": time.process_time() - began}


def soak_races(num: int, limit: float) -> list[tuple[float, int, int]]:
    """Race that many times, or for so many seconds; resident memory, small objects and open files after each."""
    import torch

    from gpnn.build import Race, begin_run, load_config, race_run, train_run

    torch.set_num_threads(1)
    rows: list[tuple[float, int, int]] = []
    config, began = load_config(overrides=RACED), time.monotonic()
    while len(rows) < num and time.monotonic() - began < limit:
        with tempfile.TemporaryDirectory() as folder:
            run, begun = begin_run(lambda: config, Path(folder) / "run", before=lambda own: Race(own.to_toml(), FIXED))
            built = race_run(run, begun)
            assert built is not None
            train_run(run, built, report=False)
        del run, begun, built
        gc.collect()
        rows.append((resident(), sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))))  # noqa: PTH208
    return rows


def soak_apart(num: int, processes: int, limit: float) -> list[dict[str, Any]]:
    """What as many processes noted that run beside each other: `rows` of their races, and CPU seconds."""
    shares = [num * (process + 1) // processes - num * process // processes for process in range(processes)]
    command = [sys.executable, __file__, "--json", "--limit", str(limit), "--races"]
    running = [subprocess.Popen([*command, str(share)], stdout=subprocess.PIPE, text=True) for share in shares]
    found = [process.communicate()[0] for process in running]
    assert not any(process.returncode for process in running)
    return [json.loads(each) for each in found]


def race_rates(rows: list[tuple[float, int, int]]) -> tuple[int, float, float, int]:
    """The races after which growth counts; KiB and small objects per race; files that stay open."""
    settled = len(rows) // 2 if len(rows) > 1 else 0
    races = max(1, len(rows) - settled - 1)
    memory, objects, files = (last - first for last, first in zip(rows[-1], rows[settled]))
    return settled, 1024 * memory / races, objects / races, files


def flat_races(rows: list[tuple[float, int, int]]) -> bool:
    _, memory, objects, files = race_rates(rows)
    return memory <= MOST_PER_RACE and objects <= MOST_KEPT and files <= 1


def races_page(found: list[dict[str, Any]]) -> str:
    import torch

    num = sum(len(each["rows"]) for each in found)
    about = (__doc__ or "").partition("    python benchmarks/soak.py --races")[2].partition("\n\n")[2].strip()
    command = f"python benchmarks/soak.py --races {num} --processes {len(found)} --out FILE"
    machine = f"Machine: {platform.machine()}, {os.cpu_count()} cores; torch {torch.__version__}. "
    seconds = sum(each["seconds"] for each in found)
    lines = [f"# {num:,} races in flat memory\n\n    {command}\n\nIt {about}\n"]
    lines += [f"{machine}{seconds:.0f} CPU s; other work kept the cores busy.\n"]
    lines += ["| process | race | resident, MiB | small objects | open files |", "|---:|---:|---:|---:|---:|"]
    for process, each in enumerate(found, 1):
        rows, settled = each["rows"], race_rates(each["rows"])[0]
        step = max(1, len(rows) // 5)
        for number in sorted({1, settled + 1, *range(step, len(rows) + 1, step), len(rows)}):
            lines.append("| {} | {:,} | {:.1f} | {:,} | {} |".format(process, number, *rows[number - 1]))
    lines.append("")
    for process, each in enumerate(found, 1):
        settled, memory, objects, _ = race_rates(each["rows"])
        after = f"Process {process}, per race after the first {settled + 1}"
        lines.append(f"{after}: {memory:+.1f} KiB, {objects:+.1f} small objects.")
    return "\n".join(lines) + "\n"


def growth(values: list[float]) -> float:
    """From the median of the hundred epochs after settling to that of the last hundred."""
    from statistics import median

    return median(values[-100:]) - median(values[SETTLED : SETTLED + 100])


def rates(case: str, result: dict[str, Any]) -> dict[str, float]:
    """Bytes resident, of these such as are not given back, bytes handed out, objects and the history's, an epoch."""
    epochs = len(result["memory"]) - SETTLED - 100
    return {
        "resident": growth(result["memory"]) * 2**20 / epochs,
        "not given back": (result["trimmed"][-1] - result["trimmed"][0]) * 2**20 / epochs,
        "handed": growth(result["handed"]) / epochs,
        "objects": growth(result["objects"]) / epochs,
        "records": 0.0 if case == FORGETFUL else sum(result["records"][SETTLED:]) / (epochs + 100),
    }


def flat(case: str, result: dict[str, Any]) -> bool:
    rate = rates(case, result)
    bounded = growth(result["memory"]) <= MOST_GROWTH and rate["handed"] <= MOST_HANDED_OUT
    bounded = bounded and (case != FORGETFUL or rate["resident"] <= MOST_FORGETFUL)
    closed = result["files"][-1] <= result["files"][0] + 1
    return bounded and closed and rate["objects"] <= rate["records"] + MOST_OBJECTS


def page(results: dict[str, dict[str, Any]]) -> str:
    import torch

    lines = [f"| run | {' | '.join(f'epoch {each}' for each in SHOWN)} | growth | open files | CPU s |"]
    lines.append("|---" + "|---:" * (len(SHOWN) + 3) + "|")
    for case, result in results.items():
        memory, files = result["memory"], result["files"]
        cells = " | ".join(f"{memory[epoch - 1]:.1f}" if epoch <= len(memory) else "" for epoch in SHOWN)
        opened = f"{files[0]:.0f} to {files[-1]:.0f}"
        lines.append(f"| {case} | {cells} | {growth(memory):+.2f} | {opened} | {result['seconds']:.0f} |")
    memory_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {memory_:.0f} GiB; torch {torch.__version__}"
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].partition("\nExits")[0].strip()
    head = f"# Thousands of epochs in flat memory\n\n    python benchmarks/soak.py --out FILE\n\n{about}\n\n"
    tail = "Resident memory in MiB; growth is from the median of epochs 501 to 600 to that of the last hundred."
    return f"{head}Machine: {machine}.\n\n" + "\n".join(lines) + f"\n\n{tail}\n\n{inside(results)}"


def inside(results: dict[str, dict[str, Any]]) -> str:
    """The table of what is in use, an epoch."""
    names = ("resident, bytes", "not given back, bytes", "C library, bytes", "small objects", "of them the history's")
    lines = [f"| an epoch | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
    for case, result in results.items():
        rate = rates(case, result)
        metrics = f"{rate['resident']:+.0f} | {rate['not given back']:+.0f} | {rate['handed']:+.0f}"
        lines.append(f"| {case} | {metrics} | {rate['objects']:+.2f} | {rate['records']:.2f} |")
    return "\n".join(lines) + "\n\n" + reading(results)


def reading(results: dict[str, dict[str, Any]]) -> str:
    """What the metrics say of the cause."""
    kept, lost, saved = (rates(case, results[case]) for case in ("fused, no checkpoints", FORGETFUL, "fused"))
    size = sum(results["fused"]["sizes"]) / len(results["fused"]["sizes"])
    text = (
        f"The growth is the history's: with one that forgets it is {lost['resident']:.0f} bytes per epoch in place of "
        f"{kept['resident']:.0f}. Checkpoints have no part in it ({saved['resident']:.0f} with them). A record takes "
        f"{size:.0f} bytes; the rest is space between records that allocators keep, of which the C library gives back "
        f"{kept['resident'] - kept['not given back']:.0f} bytes per epoch when it is asked to. A hundred thousand "
        f"epochs would take {kept['resident'] / 10:.0f} MB more; the page, the final result and every checkpoint need "
        "the history."
    )
    return textwrap.fill(text, 120) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", choices=CASES, help="run in this process and print JSON")
    parser.add_argument("--races", type=int, help="race that many times instead")
    parser.add_argument("--processes", type=int, default=1, help="that share the races")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no race begins")
    parser.add_argument("--json", action="store_true", help="race in this process and print JSON")
    chosen = parser.parse_args()
    if chosen.races and chosen.json:
        print(json.dumps({"rows": soak_races(chosen.races, chosen.limit), "seconds": time.process_time()}))
        return
    if chosen.races:
        found = soak_apart(chosen.races, chosen.processes, chosen.limit)
        text = races_page(found)
        print(text)
        if chosen.out is not None:
            from gpnn.storage.atomic import write_text

            write_text(chosen.out, text)
        sys.exit(not all(flat_races(each["rows"]) for each in found))
    if chosen.case:
        print(json.dumps(soak(chosen.case)))
        return
    results = {}
    for case in CASES:
        command = [sys.executable, __file__, "--case", case]
        results[case] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    text = page(results)
    print(text)
    if chosen.out is not None:
        from gpnn.storage.atomic import write_text

        write_text(chosen.out, text)
    sys.exit(not all(flat(case, result) for case, result in results.items()))


if __name__ == "__main__":
    main()
