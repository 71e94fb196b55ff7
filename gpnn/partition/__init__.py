"""Partitions of a graph into subgraphs: the paper's flood fill, spectral, and what scales beyond them."""

from gpnn.partition.compare import PartitionRow, compare_partitions
from gpnn.partition.partition import Partition
from gpnn.partition.partition_graph import PARTITIONERS, partition_graph
from gpnn.partition.quality import Quality

__all__ = ["PARTITIONERS", "Partition", "PartitionRow", "Quality", "compare_partitions", "partition_graph"]
