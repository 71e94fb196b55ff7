"""Nanoseconds per message of the CPU's sum over edges: SIMD vectors in LLVM beside the same loops in numba alone.

    python benchmarks/simd.py --out benchmarks/results/simd.md

Random graphs of ten edges per node, in a core's cache and not; one thread, float32, forward, no weights; the best of
the repeats. Both sum in the same order: the results are the same bits.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

NODES, WIDTHS, DEGREE, REPEATS = (2_000, 200_000), (4, 16, 64, 128), 10, 20


def make_loops() -> Callable[..., None]:
    """The sum as numba compiles it from loops over a row's entries and columns."""
    from numba import njit

    @njit(nogil=True)
    def sum_rows(start, stop, ptr, index, x, out):  # type: ignore[no-untyped-def]
        total = np.empty(x.shape[1], x.dtype)
        for row in range(start, stop):
            total[:] = 0
            for e in range(ptr[row], ptr[row + 1]):
                source = x[index[e]]
                for j in range(len(total)):
                    total[j] += source[j]
            out[row] = total

    return sum_rows


def seconds(*ways: Callable[[], None]) -> list[float]:
    """The least that each takes once it is compiled, in turns: a busy moment of the machine meets all."""
    best = [float("inf")] * len(ways)
    for repeat in range(REPEATS + 1):
        for number, do in enumerate(ways):
            began = time.perf_counter()
            do()
            if repeat:
                best[number] = min(best[number], time.perf_counter() - began)
    return best


def measure(num_nodes: int, width: int, loops: Callable[..., None]) -> str:
    """A row of the table."""
    from gpnn.kernels.cpu import weighted_sum

    random = np.random.default_rng(0)
    ptr = np.arange(0, num_nodes * DEGREE + 1, DEGREE)
    index = random.integers(0, num_nodes, num_nodes * DEGREE).astype(np.int32)
    x = random.normal(size=(num_nodes, width)).astype(np.float32)
    none, first, second = x[:0, 0].copy(), np.empty_like(x), np.empty_like(x)
    best = seconds(
        lambda: weighted_sum(0, num_nodes, ptr, index, index[:0], none, none, none, x, first),
        lambda: loops(0, num_nodes, ptr, index, x, second),
    )
    assert np.array_equal(first, second)
    each = [1e9 * value / len(index) for value in best]
    return f"| {num_nodes:,} | {width} | {each[0]:.1f} | {each[1]:.1f} | {each[1] / each[0]:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = ["| nodes | columns | vectors, ns | loops, ns | gain |", "|---|---|---|---|---|"]
    loops = make_loops()
    for num_nodes in NODES:
        for width in WIDTHS:
            lines.append(measure(num_nodes, width, loops))
            print(lines[-1], flush=True)
    if options.out:
        options.out.write_text(f"# {__doc__}\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
