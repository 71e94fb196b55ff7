"""Partition: the time that a partitioner takes on a graph, and what its parts cost (the paper's Table 4)."""

from __future__ import annotations

import time

from experiments.harness.kinds.kind import SMALL_GRAPH, Kind, Metrics
from experiments.harness.kinds.training import read_config
from experiments.harness.settings import Settings, lay_over

WARMING = {"name": "planted", "num_nodes": 2000, "num_classes": 4, "label_rate": 0.1}


def run_partition(settings: Settings, seed: int) -> Metrics:
    """CPU seconds of the partition alone, and its quality; settings are a configuration's [data] and [partition].

    The method divides a small graph first, so that what it compiles is compiled before the clock starts.
    """
    from gpnn.build import build_data, pipeline_of

    config, _ = read_config(settings, seed)
    warm, _ = read_config({**settings, "data": WARMING}, seed)
    pipeline_of(warm).divide(build_data(warm))
    data = build_data(config)
    began = time.process_time()
    partition = pipeline_of(config).divide(data)
    seconds = time.process_time() - began
    assert partition is not None  # the plain schedule is partitioned
    quality = partition.quality(data)
    return {
        "partition_seconds": seconds,
        "edge_cut": quality.edge_cut,
        "balance": quality.balance,
        "edge_balance": quality.edge_balance,
        "parts": quality.num_parts,
        "halo": sum(quality.halo),
    }


def _shrink(settings: Settings) -> Settings:
    return lay_over({**settings, "data": SMALL_GRAPH}, {"partition": {"k": 4}})


PARTITION = Kind(run_partition, _shrink, lambda settings: read_config(settings)[1])
