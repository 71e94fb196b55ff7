"""A small graph as tables, and how to write a table in any format."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import csv, parquet

NODES = {"id": ["anna", "bert", "cleo"], "label": ["red", "blue", ""], "age": [1.5, 2.5, 3.5]}
EDGES = {"source": ["anna", "cleo"], "target": ["bert", "anna"], "type": ["x", "y"], "weight": [1.0, 0.5]}


def write(path: Path, columns: dict[str, Any]) -> None:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table(columns), path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    else:
        delimiter = "," if path.suffix == ".csv" else "\t"
        csv.write_csv(pyarrow.table(columns), path, csv.WriteOptions(delimiter=delimiter))
