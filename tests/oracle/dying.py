"""`python -m tests.oracle.dying RANK EPOCH WORDS…`: gpnn, killed right after an epoch, however busy the machine is.

The process of that rank dies, and does not when torchrun starts it again.
"""

import os
import signal
import sys
from importlib import import_module
from typing import Any

from gpnn.cli import main


def die_after(rank: int, epoch: int) -> None:
    """Kill this process after the epoch's callbacks, where it is that rank's first."""
    if int(os.environ.get("RANK", 0)) != rank or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)):
        return
    trainer_type = import_module("gpnn.train.trainer").Trainer
    run_epoch = trainer_type._epoch

    def run_or_die(trainer: Any) -> str | None:
        if trainer.progress.epoch == epoch:
            os.kill(os.getpid(), signal.SIGKILL)
        return run_epoch(trainer)

    trainer_type._epoch = run_or_die


if __name__ == "__main__":
    die_after(int(sys.argv[1]), int(sys.argv[2]))
    sys.argv[1:3] = []
    main()
