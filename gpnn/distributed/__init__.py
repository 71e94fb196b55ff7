"""A process group of size 1 or n: its collectives, shards of a graph, halo exchange, sharded plans and checkpoints."""

from gpnn.distributed.halo_exchange import HaloExchange, build_exchange
from gpnn.distributed.plan import Ownership, ShardedPlan, group_of, lower_shard
from gpnn.distributed.process_group import SINGLE, TRAFFIC, ProcessGroup, RankFailed, Traffic
from gpnn.distributed.read_shard import read_shard, read_sizes
from gpnn.distributed.runner import Sharded
from gpnn.distributed.schedules import SHARD_SCHEDULES, Numbering, measure_shards, number_parts
from gpnn.distributed.shard import NodeOrder, Shard, ShardBuilder, Totals
from gpnn.distributed.shard_folder import ShardIndex, is_shard_folder, read_index, write_shards

__all__ = [
    "SHARD_SCHEDULES",
    "SINGLE",
    "TRAFFIC",
    "HaloExchange",
    "NodeOrder",
    "Numbering",
    "Ownership",
    "ProcessGroup",
    "RankFailed",
    "Shard",
    "ShardBuilder",
    "ShardIndex",
    "Sharded",
    "ShardedPlan",
    "Totals",
    "Traffic",
    "build_exchange",
    "group_of",
    "is_shard_folder",
    "lower_shard",
    "measure_shards",
    "number_parts",
    "read_index",
    "read_shard",
    "read_sizes",
    "write_shards",
]
