"""Partitions of a graph: the paper's flood fill and spectral clustering, and methods for large graphs."""

from gpnn.partition.partition import Partition, Quality
from gpnn.partition.partition_graph import PARTITIONERS, PartitionRow, compare_partitions, partition_graph

__all__ = ["PARTITIONERS", "Partition", "PartitionRow", "Quality", "compare_partitions", "partition_graph"]
