"""Does it help that rows travel while other rows are updated? Seconds per epoch with and without the overlap.

    python benchmarks/overlap.py --out benchmarks/results/overlap.md

The planted graph of benchmarks/sharded.py in two processes of one thread each: a GRU of 64 channels, T = 3 rounds of
one step inside and one over the cut, six synchronous steps, and under the held cut three rounds of four steps, where
products of own states are made while rows travel. "In turn" waits for each exchange as soon as it has started;
"overlapped" is what the engine does. Rows travel over this machine's loopback, and over links of two lower speeds that
are simulated: an exchange lands no sooner than its bytes take. Medians over the epochs of three turns.
"""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median

import sharded  # its first lines put the project on the path
import torch
import torch.distributed as dist
from process import describe_machine
from torch import Tensor

from gpnn.distributed import ProcessGroup

LINKS = {"loopback": inf, "250 MB/s": 2.5e8, "50 MB/s": 5e7}
SCHEDULES = {"T_S = 1": sharded.SCHEDULES["T_S = 1"], "synchronous, depth 6": ("synchronous", {}, 6)}
SCHEDULES["held, 3 × 4 steps"] = sharded.SCHEDULES["held, 3 × 4 steps"]
TURNS = 3


@dataclass(frozen=True, eq=False)
class Link(ProcessGroup):
    """A process group over a link of `bandwidth` bytes per second; `in_turn` waits for an exchange at once."""

    bandwidth: float = inf
    in_turn: bool = False

    def start_all_to_all(self, values: Tensor, send: list[int], receive: list[int]) -> tuple[Tensor, dist.Work]:
        buffer, work = super().start_all_to_all(values, send, receive)
        travels = max(values.nbytes, buffer.nbytes) / self.bandwidth
        landing = Landing(work, time.perf_counter() + travels)
        if self.in_turn:
            landing.wait()
        return buffer, landing  # type: ignore[return-value]


class Landing:
    """Work that is not over before a time."""

    def __init__(self, work: dist.Work, earliest: float) -> None:
        self.work, self.earliest = work, earliest

    def wait(self) -> None:
        """Return when both have come; a second call finds them there."""
        self.work.wait()
        time.sleep(max(0.0, self.earliest - time.perf_counter()))


def work(folders: list[str], epochs: int, port: int, rank: int, size: int) -> None:
    """What one process does; the first prints the seconds of every epoch by schedule, link and way."""
    sharded.SCHEDULES.update(SCHEDULES)
    group = sharded.join_all(port, rank, size)
    sharded.measure(folders[0], "T_S = 1", 2, group)  # compiles kernels and loads libraries
    seconds: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for schedule in SCHEDULES:
            for name, bandwidth in LINKS.items():
                for way in ("overlapped", "in turn"):
                    link = Link(group.handle, bandwidth=bandwidth, in_turn=way == "in turn")
                    found = sharded.measure(folders[0], schedule, epochs, link)["epochs"]
                    seconds.setdefault(f"{schedule} | {name} | {way}", []).extend(found)
    if rank == 0:
        print(json.dumps(seconds))


def describe(seconds: dict[str, list[float]]) -> str:
    lines = ["| schedule | link | in turn, s | overlapped, s | gain |", "|---|---|---|---|---|"]
    for schedule in SCHEDULES:
        for name in LINKS:
            found = {way: seconds[f"{schedule} | {name} | {way}"] for way in ("in turn", "overlapped")}
            words = " | ".join(f"{median(each):.3f} ({min(each):.3f} to {max(each):.3f})" for each in found.values())
            gain = median(found["in turn"]) / median(found["overlapped"])
            lines.append(f"| {schedule} | {name} | {words} | {gain:.2f}× |")
    text = [
        f"# {__doc__.splitlines()[0]}",
        *__doc__.splitlines()[1:],
        "",
        *lines,
        "",
        f"Machine: {describe_machine()}.",
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.worker:
        work(**json.loads(options.worker), rank=options.rank)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "planted"
        sharded.prepare("planted", folder, 16)
        text = describe(sharded.run([folder], options.epochs, 2, script=__file__))
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
