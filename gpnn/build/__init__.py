"""From configuration to objects and runs: the only reader of names."""

from gpnn.build.describe import describe_data
from gpnn.build.names import load_config
from gpnn.build.objects import Built, build, build_data, build_partition, build_schedule, rebuild, resolve
from gpnn.build.run import create_run, open_run, predict_run, train_run
from gpnn.build.search import Search, search_run

__all__ = [
    "Built",
    "Search",
    "build",
    "build_data",
    "build_partition",
    "build_schedule",
    "create_run",
    "describe_data",
    "load_config",
    "open_run",
    "predict_run",
    "rebuild",
    "resolve",
    "search_run",
    "train_run",
]
