"""The sharded runner: subgraphs dealt out to the processes of `torch.distributed`."""

from gpnn.engine.sharded.exchange import Exchange, negotiate
from gpnn.engine.sharded.folder import write_shards
from gpnn.engine.sharded.index import ShardIndex, is_shard_folder, read_index
from gpnn.engine.sharded.peers import SINGLE, TRAFFIC, Peers, Traffic
from gpnn.engine.sharded.plan import Ownership, ShardedPlan, group_of, lower_owned, lower_shard
from gpnn.engine.sharded.quality import Numbering, measure_shards, number_parts
from gpnn.engine.sharded.read import read_shard, read_sizes
from gpnn.engine.sharded.runner import Sharded
from gpnn.engine.sharded.schedules import SHARD_SCHEDULES
from gpnn.engine.sharded.shard import Cutter, Line, Shard, Totals

__all__ = [
    "SHARD_SCHEDULES",
    "SINGLE",
    "TRAFFIC",
    "Cutter",
    "Exchange",
    "Line",
    "Numbering",
    "Ownership",
    "Peers",
    "Shard",
    "ShardIndex",
    "Sharded",
    "ShardedPlan",
    "Totals",
    "Traffic",
    "group_of",
    "is_shard_folder",
    "lower_owned",
    "lower_shard",
    "measure_shards",
    "negotiate",
    "number_parts",
    "read_index",
    "read_shard",
    "read_sizes",
    "write_shards",
]
