"""The settings of a run that hold for the whole process: threads and determinism."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpnn.build import Built


def set_process(built: Built) -> None:
    """Set what the configuration has for this process, which is ours, in one process and in each of several.

    Threads are those that were given, or that suit the size of what the process holds; OMP_NUM_THREADS, which torchrun
    sets, counts before that.
    """
    import torch

    from gpnn.engine.device import choose_threads, make_deterministic

    if built.config.deterministic:
        make_deterministic()
    threads = built.config.threads
    if threads == "auto":
        if "OMP_NUM_THREADS" in os.environ:
            return
        width = int(built.config.model.hidden_channels)
        threads = choose_threads(built.data.num_nodes, width, torch.get_num_threads())
    torch.set_num_threads(threads)
