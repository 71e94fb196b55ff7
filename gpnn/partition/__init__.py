"""Partitions of a graph: the paper's flood fill and spectral clustering, and methods for large graphs."""

from gpnn.partition.compare import PartitionRow, compare_partitions
from gpnn.partition.partition import Partition
from gpnn.partition.partition_graph import PARTITIONERS, partition_graph
from gpnn.partition.quality import Quality

__all__ = ["PARTITIONERS", "Partition", "PartitionRow", "Quality", "compare_partitions", "partition_graph"]
