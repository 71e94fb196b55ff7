"""Tables of small graphs, and pieces so small that a few rows make many."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

from gpnn.data.convert import ConvertSettings


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of seven rows, row groups of five, pieces of text of sixty bytes."""
    monkeypatch.setattr(ConvertSettings, "batch_rows", lambda self, taken=0.0: 7)
    monkeypatch.setattr("gpnn.data.convert.pieces.PIECE_BYTES", 60)


def write_table(path: Path, columns: dict[str, Any]) -> Path:
    """A table as .parquet (row groups of five), .csv or .npz, by the ending."""
    table = pyarrow.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=5)
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.asarray(values) for name, values in columns.items()})
    else:
        csv.write_csv(table, path)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    return lambda name, **columns: write_table(tmp_path / name, columns)
