"""One epoch of `gpnn train` on a GPU by kernel: a file for the results, a number of passes, the command's own words.

    python benchmarks/profile_train.py FILE 6 train graph/ device=cuda …

The fourth loss with its gradients is taken under torch's profiler; the seconds of each, its memory, and how often torch
had to give memory back before it found some, are recorded. The process ends after that many.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # as the command does

MEASURED, SHOWN = 3, 25


def main() -> None:
    from gpnn.cli import app
    from gpnn.nn import GPNN

    out, passes, words, found = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:], []
    told = [word.replace(f"{Path.cwd()}/", "") for word in words]  # whatever the machine's folders are called
    take: Any = GPNN.loss

    def measured(*arguments: Any, **named: Any) -> Any:
        if len(found) == passes:
            os._exit(0)  # the last epoch is in the history
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats().get("num_alloc_retries", 0)
        began, kernels = time.perf_counter(), []
        if len(found) == MEASURED:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                loss = take(*arguments, **named)
                torch.cuda.synchronize()
            kernels = shares(profile)
        else:
            loss = take(*arguments, **named)
            torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() / 2**30
        seconds = time.perf_counter() - began
        retries = torch.cuda.memory_stats().get("num_alloc_retries", 0) - before
        found.append({"seconds": round(seconds, 3), "GiB": round(peak, 1), "retries": retries, "kernels": kernels})
        out.write_text(json.dumps({"command": told, "passes": found}, indent=1) + "\n")
        return loss

    GPNN.loss = measured  # type: ignore[method-assign]
    app(words)


def shares(profile: torch.profiler.profile) -> list[dict[str, Any]]:
    """Calls and milliseconds of the kernels that take longest."""
    averages = sorted(profile.key_averages(), key=lambda each: -each.self_device_time_total)
    return [
        {"kernel": each.key[:70], "calls": each.count, "ms": round(each.self_device_time_total / 1000, 1)}
        for each in averages[:SHOWN]
    ]


if __name__ == "__main__":
    main()
