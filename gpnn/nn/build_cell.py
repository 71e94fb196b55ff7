"""Cells from the names of their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gpnn.check import check_choice
from gpnn.nn.cell import Cell, CellBank
from gpnn.nn.message import MESSAGES
from gpnn.nn.update import UPDATES

SHARINGS = ("shared", "round", "kind")
KINDS = ("inside", "cut", "gather", "scatter")  # the kinds of phase that have a cell of their own when asked for


def build_cell(
    message: str,
    update: str,
    aggregate: str,
    options: Mapping[str, Any],
    channels: int,
    num_edge_types: int,
    generator: torch.Generator,
) -> Cell:
    """A cell from the names of its message and update functions."""
    check_choice("message", message, MESSAGES)
    check_choice("cell", update, UPDATES)
    sender = MESSAGES[message](channels, num_edge_types, generator)
    try:
        updater = UPDATES[update](channels, generator, **options)
    except TypeError as error:
        raise ValueError(f"`cell_options` must be arguments of the cell {update!r}. Got {dict(options)}.") from error
    return Cell(sender, updater, aggregate)


def share_cells(sharing: str, make: Callable[[], Cell], num_rounds: int | None) -> Cell | CellBank:
    """One cell for all steps, one a round, or one a kind of phase.

    Raises:
        ValueError: when the sharing is unknown, or is "round" without a number of rounds.
    """
    check_choice("sharing", sharing, SHARINGS)
    if sharing == "shared":
        return make()
    if sharing == "kind":
        return CellBank([make() for _ in KINDS], KINDS)
    if num_rounds is None:
        raise ValueError("The sharing 'round' needs `num_rounds`. Got None.")
    return CellBank([make() for _ in range(num_rounds)])
