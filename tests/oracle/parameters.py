"""Parameters of tests: which run in `make test`, and which only in `make test-all`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def rest_thorough(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """The values; those that are not among `quick` are marked thorough."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.thorough) for value in values]
