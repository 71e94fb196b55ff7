"""A split for labels that come without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpnn.data.labels import labelled_nodes
from gpnn.data.splits import split_fractions

if TYPE_CHECKING:
    from torch_geometric.data import Data


def draw_split(data: Data, seed: int) -> str:
    """Give `data` masks, class by class; the sentence that says so.

    Args:
        data: with labels `y`.
        seed: the draw.
    """
    y = data.y if data.y.dim() == 1 else labelled_nodes(data.y).long() - 1
    split = split_fractions(y, seed=seed)
    for name, mask in split._asdict().items():
        data[name] = mask
    counts = [int(mask.sum()) for mask in split]
    shares = f"split drawn with seed {seed}, 60/20/20 % of each class"
    return f"{shares}: {counts[0]} nodes train, {counts[1]} validate, {counts[2]} test"
