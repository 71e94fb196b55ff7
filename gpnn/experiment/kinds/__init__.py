"""Kinds of cell: what one run of an experiment does, by the name that its setting `kind` gives."""

from gpnn.experiment.kinds.babi import BABI
from gpnn.experiment.kinds.baseline import BASELINE
from gpnn.experiment.kinds.broadcast import BROADCAST
from gpnn.experiment.kinds.clusters import CLUSTERS
from gpnn.experiment.kinds.kind import Kind, Metrics
from gpnn.experiment.kinds.partition import PARTITION
from gpnn.experiment.kinds.states import STATES
from gpnn.experiment.kinds.statistics import STATISTICS
from gpnn.experiment.kinds.training import TRAINING

KINDS: dict[str, Kind] = {
    "training": TRAINING,
    "baseline": BASELINE,
    "clusters": CLUSTERS,
    "states": STATES,
    "partition": PARTITION,
    "broadcast": BROADCAST,
    "statistics": STATISTICS,
    "babi": BABI,
}

__all__ = ["KINDS", "Kind", "Metrics"]
