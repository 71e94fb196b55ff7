"""Aggregation over edges without a tensor of the size of the edges, forward and backward, by device."""

from gpnn.kernels.aggregate import AGGREGATORS, aggregate
from gpnn.kernels.masks import dropout_mask, hash_key, row_mask
from gpnn.kernels.operator import Operator

__all__ = ["AGGREGATORS", "Operator", "aggregate", "dropout_mask", "hash_key", "row_mask"]
