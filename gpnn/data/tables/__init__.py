"""A user's own tables: nodes, edges, features and labels, in whichever of the known formats they stand."""

from gpnn.data.tables.tables import tables
from gpnn.data.tables.vocabulary import Vocabulary

__all__ = ["Vocabulary", "tables"]
