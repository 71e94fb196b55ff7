"""convert: tables of nodes and edges, of any number and size, turned into a graph on the disk."""

from gpnn.data.convert.convert import convert
from gpnn.data.convert.settings import ConvertSettings

__all__ = ["ConvertSettings", "convert"]
