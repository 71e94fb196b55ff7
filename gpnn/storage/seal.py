"""Seals: a digest beside the values of a JSON file, so that one that was changed is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEAL = "sha256"


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with their digest as `sha256`.

    >>> sorted(seal({"epoch": 1}))
    ['epoch', 'sha256']
    """
    return {**values, SEAL: digest_json(values)}


def unseal(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The values without their digest.

    Raises:
        ValueError: when it is another's, naming the file.
    """
    kept = {name: value for name, value in values.items() if name != SEAL}
    if values.get(SEAL) != digest_json(kept):
        raise ValueError(f"{path} must be as it was written. Its digest is that of other values.")
    return kept


def digest_json(values: Mapping[str, Any]) -> str:
    """The sha256 of the values as JSON, whatever the order of their names."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
