"""What holds for every test and doctest: the same draws and warnings, in whatever order and wherever they run."""

import gc
import os
import random
import signal
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

# Doctests of modules that need what this machine does not have are not collected.
collect_ignore_glob = [] if find_spec("triton") else ["gpnn/kernels/gpu*.py", "gpnn/partition/clustered_gpu.py"]

for name in ("COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TERMINAL_WIDTH"):  # rich and typer read them
    os.environ.pop(name, None)
for number, handler in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(number) is signal.SIG_IGN:  # behind `nohup` or `&`; a test's process would inherit it
        signal.signal(number, handler)
torch.set_num_threads(1)

# The same examples in every run, however slow the machine; new ones with `--hypothesis-profile=default`.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


def pytest_collection_finish() -> None:
    """Modules and tests are no garbage: a collection of it looks at what the tests made alone."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    seed()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    seed()


def seed() -> None:
    """What draws without a generator of its own draws the same numbers, whatever ran before it in this process."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
