"""Checks of a model's arguments."""

from __future__ import annotations

from collections.abc import Iterable


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}. Got {value!r}.")


def check_sizes(**sizes: int) -> None:
    """Raise ValueError unless each size is positive; `in_channels` may be 0."""
    for name, value in sizes.items():
        least = 0 if name == "in_channels" else 1
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}. Got {value}.")


def check_probabilities(**probabilities: float) -> None:
    """Raise ValueError unless each probability is at least 0 and below 1."""
    for name, p in probabilities.items():
        if not 0 <= p < 1:
            raise ValueError(f"`{name}` must be at least 0 and below 1. Got {p}.")
