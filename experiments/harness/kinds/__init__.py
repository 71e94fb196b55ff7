"""Kinds of cell: what one run of an experiment does, by the name that its setting `kind` gives."""

from experiments.harness.kinds.babi import BABI
from experiments.harness.kinds.baseline import BASELINE
from experiments.harness.kinds.broadcast import BROADCAST
from experiments.harness.kinds.clusters import CLUSTERS
from experiments.harness.kinds.kind import Kind, Metrics
from experiments.harness.kinds.partition import PARTITION
from experiments.harness.kinds.race import PEER, RACE
from experiments.harness.kinds.states import STATES
from experiments.harness.kinds.statistics import STATISTICS
from experiments.harness.kinds.training import TRAINING

KINDS: dict[str, Kind] = {
    "training": TRAINING,
    "baseline": BASELINE,
    "clusters": CLUSTERS,
    "states": STATES,
    "partition": PARTITION,
    "broadcast": BROADCAST,
    "statistics": STATISTICS,
    "babi": BABI,
    "race": RACE,
    "peer": PEER,
}

__all__ = ["KINDS", "Kind", "Metrics"]
