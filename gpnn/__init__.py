"""Graph partition neural networks: exact-gradient training by partition-based propagation schedules.

The public names load on first use, so that `import gpnn` costs little more than `import torch`.
"""

import os
from importlib import import_module
from typing import Any

# Threads of OpenMP that wait in a loop take the cores from those that work: on a busy machine a training took several
# times as long. It is read when torch is loaded, so that who imports torch first, or sets it, decides otherwise.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "0.1.0"

_HOMES = {
    "Graph": "gpnn.graph",
    "load_dataset": "gpnn.data",
    "from_frames": "gpnn.data.arrays",
    "Partition": "gpnn.partition",
    "partition_graph": "gpnn.divide",
    "Phase": "gpnn.schedule",
    "Schedule": "gpnn.schedule",
    "Plan": "gpnn.engine",
    "lower": "gpnn.engine",
    "propagate": "gpnn.engine",
    "GPNNClassifier": "gpnn.estimator",
    "GPNNRegressor": "gpnn.estimator",
}
_ROOMS = (
    "graph",
    "data",
    "partition",
    "schedule",
    "kernels",
    "engine",
    "nn",
    "distributed",
    "train",
    "recipes",
    "report",
    "model_selection",
)

__all__ = ["__version__", *_HOMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"gpnn.{name}")
    raise AttributeError(f"module 'gpnn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
