"""Choices: how tables are to be understood, where a person has a say."""

from __future__ import annotations

from dataclasses import dataclass

from gpnn.data.tables.vocabulary import Vocabulary


@dataclass(frozen=True)
class Choices:
    """How tables are to be understood; see :func:`gpnn.data.tables.tables`."""

    label: str = "label"
    categorical: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    numbers: str = "standard"
    undirected: bool = False
    seed: int = 0
    vocabulary: Vocabulary | None = None
