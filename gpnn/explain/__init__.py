"""Why a node gets its class: what carried the prediction, checked by deletion."""

from gpnn.explain.explain_node import Explanation, draw_explanation, explain_node, find_node
from gpnn.explain.explained import Explained

__all__ = ["Explained", "Explanation", "draw_explanation", "explain_node", "find_node"]
