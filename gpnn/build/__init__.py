"""From configuration to objects and runs: the only reader of names."""

from gpnn.build.describe import build_partitions, build_schedules, describe_data, describe_stored
from gpnn.build.objects import (
    Begun,
    Built,
    build,
    build_data,
    history_notes,
    pipeline_of,
    rebuild,
    resolve,
    resolve_structure,
)
from gpnn.build.predict import Trained, graph_files, predict_tables, predict_trained, read_trained, with_graph
from gpnn.build.race import Race, race_run
from gpnn.build.report import explain_run, export_run, report_run
from gpnn.build.run import adopt_extension, begin_run, create_run, open_run, train_run
from gpnn.build.search import Search, search_run
from gpnn.build.unchanged import load_config, load_run_config
from gpnn.build.update import UpdatedPredictions, update_trained

__all__ = [
    "Begun",
    "Built",
    "Race",
    "Search",
    "Trained",
    "UpdatedPredictions",
    "adopt_extension",
    "begin_run",
    "build",
    "build_data",
    "build_partitions",
    "build_schedules",
    "create_run",
    "describe_data",
    "describe_stored",
    "explain_run",
    "export_run",
    "graph_files",
    "history_notes",
    "load_config",
    "load_run_config",
    "open_run",
    "pipeline_of",
    "predict_tables",
    "predict_trained",
    "race_run",
    "read_trained",
    "rebuild",
    "report_run",
    "resolve",
    "resolve_structure",
    "search_run",
    "train_run",
    "update_trained",
    "with_graph",
]
