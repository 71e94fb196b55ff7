"""Graphs on the disk: CSR rows, features, labels and splits in plain `.npy` files that are mapped, not read."""

from gpnn.data.stored.stored_data import load_stored
from gpnn.data.stored.stored_graph import StoredGraph, check_stored, is_stored, open_stored

__all__ = ["StoredGraph", "check_stored", "is_stored", "load_stored", "open_stored"]
