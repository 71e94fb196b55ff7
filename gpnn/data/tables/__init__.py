"""A user's own tables of nodes, edges, features and labels, in any of the known formats."""

from gpnn.data.tables.tables import tables
from gpnn.data.tables.vocabulary import Vocabulary

__all__ = ["Vocabulary", "tables"]
