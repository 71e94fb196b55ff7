"""Predictions of a graph that changes: what a change cannot reach is not computed again."""

from gpnn.incremental.change import Change, EdgeList
from gpnn.incremental.live_graph import LiveGraph
from gpnn.incremental.predictor import Predictor, Update

__all__ = ["Change", "EdgeList", "LiveGraph", "Predictor", "Update"]
