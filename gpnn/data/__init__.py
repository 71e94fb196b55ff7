"""Datasets and a user's own graphs, read as PyG `Data` with features, labels and masks."""

from gpnn.data.babi import select_graphs
from gpnn.data.check import check_data
from gpnn.data.diel import recall_at_k
from gpnn.data.files import data_folder
from gpnn.data.load import DATASETS, DatasetInfo, fetch_dataset, list_datasets, load_dataset, verify_files
from gpnn.data.splits import Split, split_fractions, split_per_class

__all__ = [
    "DATASETS",
    "DatasetInfo",
    "Split",
    "check_data",
    "data_folder",
    "fetch_dataset",
    "list_datasets",
    "load_dataset",
    "recall_at_k",
    "select_graphs",
    "split_fractions",
    "split_per_class",
    "verify_files",
]
