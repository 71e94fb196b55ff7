"""Models of a node's own columns and its neighbours', without propagation of states."""

from gpnn.nn.columns.column_model import ColumnModel

__all__ = ["ColumnModel"]
