"""What the process that others are forked from has done already: imports, and compiled code that starts no threads."""

import numba
import pyarrow.parquet
import safetensors.torch
import torch
import torch_geometric.data
import typer.rich_utils

import gpnn.build
import gpnn.cli

LOADED = (numba, pyarrow.parquet, safetensors.torch, torch_geometric.data, typer.rich_utils, gpnn.cli)

torch.set_num_threads(1)
_data = gpnn.load_dataset("planted", num_nodes=60, num_classes=3, num_features=8, label_rate=0.4)
gpnn.partition_graph(_data, 3)
